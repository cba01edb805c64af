"""One run of a study -> its record."""

from __future__ import annotations

import functools
import math
import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from adapters.simulation.delays import Fixed
from adapters.simulation.fluid_fleet import FluidModel
from adapters.simulation.replicas import ReplicaKind
from adapters.simulation.source import Scraping
from loadtests.bounds.layers import b60
from loadtests.bounds.slo import b_slo
from loadtests.compare.records import Buckets, Floats, Record, bucket_length_s, means, sums
from loadtests.compare.study import Case, EngineModel, OurPolicy, RivalPolicy, Run
from loadtests.rivals.roster import rival
from loadtests.rivals.seen import Bounds as RivalBounds
from loadtests.rivals.seen import Facts
from loadtests.rivals.sweep import SweepSetup, sweep_run
from loadtests.simulation.ours import Ours
from loadtests.simulation.result import RunResult
from loadtests.simulation.rivalry import Rivalry
from loadtests.simulation.run import simulate
from loadtests.simulation.setup import EngineServing, FluidServing, Setup
from loadtests.workloads.workload import SecondCounts

# Of the fluid model, which knows no tokens: how long a request is served once it is out of the queue.
FLUID_SERVICE_S = 5.0
# Long enough for that.
FLUID_DRAIN_S = 60.0
# Of its KV cache, by a replica of a fluid fleet that serves what it can: rivals that go by the cache see it fill.
_FLUID_KV_FRACTION = 0.8
_STEP_S = 15.0


@dataclass(frozen=True, slots=True, eq=False)
class _Drawn:
    """``scored``: the part of ``counts`` after the warm-up, which the bound is taken of."""

    counts: SecondCounts
    scored: SecondCounts
    bound_hours: float


def perform(run: Run) -> Record:
    """Run it to its end."""
    began_s = time.perf_counter()
    drawn = _drawn(run.case, run.seed)
    if run.case.engine is None and isinstance(run.policy, RivalPolicy):
        return _swept(run, run.policy, drawn, began_s)
    result = simulate(_setup(run, drawn.counts), _decider(run, drawn), seed=run.seed)
    score = result.score
    p99 = score.ttft_s[-1]
    return Record(
        case=run.case.name,
        policy=run.policy.label,
        knob=run.policy.knob if isinstance(run.policy, RivalPolicy) else None,
        seed=run.seed,
        requests=float(score.requests),
        missed=float(score.missed),
        gpu_hours=float(result.gpu_hours),
        bound_hours=drawn.bound_hours,
        hours=result.scored_s / 3600,
        changes=result.changes,
        ttft_p99_s=float(p99) if math.isfinite(p99) else None,
        took_s=time.perf_counter() - began_s,
        buckets=_buckets(result, warmup_s=run.case.warmup_s),
    )


def facts_of(case: Case, counts: SecondCounts) -> Facts:
    """What whoever sets a rival up knows: the truth about a replica and, for the static one, of the peak of ``counts``,
    the traffic that is scored.
    """
    engine = case.engine
    told = Facts(
        capacity_rps=case.capacity_rps,
        service_s=FLUID_SERVICE_S if engine is None else engine.service_s,
        prompt_tokens=counts.prompt_tokens,
        output_tokens=counts.output_tokens,
        ttft_slo_s=float(case.patience_s) if case.slo.ttft_s is None or engine is None else case.slo.ttft_s,
        peak_rps=counts.peak_rps(),
    )
    if engine is not None:
        return _with_engine(told, case, engine)
    tokens = counts.prompt_tokens + counts.output_tokens / 2
    return replace(told, kv_capacity_tokens=told.concurrency * tokens / _FLUID_KV_FRACTION)


def _with_engine(told: Facts, case: Case, engine: EngineModel) -> Facts:
    return replace(
        told,
        kv_capacity_tokens=float(engine.shape.kv_tokens),
        max_num_seqs=engine.shape.max_num_seqs,
        max_batched_tokens=engine.shape.chunk_tokens,
        itl_slo_s=told.itl_slo_s if case.slo.itl_s is None else case.slo.itl_s,
    )


class RunError(Exception):
    """A case can't be run as it was asked for."""


@functools.lru_cache(maxsize=2)
def _drawn(case: Case, seed: int) -> _Drawn:
    """Drawn once for the runs of a case that follow one another in a process; they are ordered so."""
    counts = case.workload.counts(seed)
    scored = replace(counts, arrivals=counts.arrivals[case.warmup_s :])
    if case.engine is None:
        bound = b60(scored.arrivals, capacity_rps=case.capacity_rps, boot_s=case.boot_s, min_replicas=1)
        return _Drawn(counts, scored, bound.replica_hours)
    most = case.bounds.max_replicas
    try:
        soft = b_slo(
            scored.arrivals, case.engine.curve, boot_s=case.boot_s, max_replicas=most, allowed=1 - case.slo.share
        )
    except ValueError as error:
        raise RunError(
            f"{case.name}: maxReplicas is {most}, and even a fleet that knows all traffic beforehand can't keep "
            f"{case.slo.share:.2%} in SLO with so few: {error}. "
            "Raise maxReplicas, or scale the traffic with --peak-replicas."
        ) from error
    return _Drawn(counts, scored, soft.replica_hours)


def initial_replicas(case: Case, arrivals: NDArray[np.int64]) -> int:
    """As many as the first minute needs, for every policy."""
    needed = math.ceil(float(arrivals[:60].mean()) / case.capacity_rps)
    return min(case.bounds.max_replicas, max(1, case.bounds.min_replicas, needed))


def _setup(run: Run, counts: SecondCounts) -> Setup:
    case = run.case
    serving: FluidServing | EngineServing
    if case.engine is None:
        serving = FluidServing(
            arrivals=counts,
            model=FluidModel(
                capacity_rps=case.capacity_rps,
                ttft_slo_s=float(case.patience_s),
                service_s=FLUID_SERVICE_S,
                prompt_tokens=counts.prompt_tokens,
                output_tokens=counts.output_tokens,
            ),
        )
    else:
        serving = EngineServing(
            requests=case.workload.requests(run.seed), times=case.engine.times, shape=case.engine.shape
        )
    drain_s = FLUID_DRAIN_S if case.engine is None else case.engine.drain_s
    read_by_itself = isinstance(run.policy, OurPolicy)
    return Setup(
        serving=serving,
        slo=case.slo,
        bounds=case.bounds,
        kinds=(ReplicaKind(startup=Fixed(case.boot_s)),),
        initial=initial_replicas(case, counts.arrivals),
        scraping=Scraping() if read_by_itself or not case.metric_lag_s else _served(case.metric_lag_s),
        warmup_s=float(case.warmup_s),
        drain_limit_s=drain_s,
        record_s=_STEP_S,
    )


def _served(lag_s: float) -> Scraping:
    """A metrics server that scrapes every ``lag_s`` and shows at once: what it shows is up to that old."""
    return Scraping(interval_s=lag_s)


def _decider(run: Run, drawn: _Drawn) -> Ours | Rivalry:
    policy = run.policy
    if isinstance(policy, OurPolicy):
        return Ours(text=policy.text, capacity_error=policy.capacity_error)
    return Rivalry(contender=rival(policy.label), facts=facts_of(run.case, drawn.scored), knob=policy.knob)


def _swept(run: Run, policy: RivalPolicy, drawn: _Drawn, began_s: float) -> Record:
    case, arrivals = run.case, drawn.counts.arrivals
    setup = SweepSetup(
        counts=arrivals,
        facts=facts_of(case, drawn.scored),
        boot_s=round(case.boot_s),
        bounds=RivalBounds(min_replicas=case.bounds.min_replicas, max_replicas=case.bounds.max_replicas),
        begin_replicas=initial_replicas(case, arrivals),
        metric_lag_s=case.metric_lag_s,
    )
    result = sweep_run(rival(policy.label), policy.knob, setup)
    hours, changes = result.replica_hours, result.changes
    if case.warmup_s:
        # Nobody sees what is to come: a run of the warm-up alone is the begin of this one, to the second.
        begin = sweep_run(rival(policy.label), policy.knob, replace(setup, counts=arrivals[: case.warmup_s]))
        hours, changes = hours - begin.replica_hours, changes - begin.changes
    missed = fluid_misses(arrivals, result.ready[1:] * case.capacity_rps, patience_s=case.patience_s)
    arrivals, ready = drawn.scored.arrivals, result.ready[1 + case.warmup_s :]
    missed = missed[case.warmup_s :]
    per_bucket = int(bucket_length_s(len(arrivals), step_s=_STEP_S))
    return Record(
        case=case.name,
        policy=policy.label,
        knob=policy.knob,
        seed=run.seed,
        requests=float(arrivals.sum()),
        missed=float(missed.sum()),
        gpu_hours=hours,
        bound_hours=drawn.bound_hours,
        hours=len(arrivals) / 3600,
        changes=changes,
        ttft_p99_s=None,
        took_s=time.perf_counter() - began_s,
        buckets=Buckets(
            bucket_s=float(per_bucket),
            demand_rps=means(arrivals.astype(np.float64), per_bucket),
            ready=means(ready, per_bucket),
            starting=None,
            missed=sums(missed, per_bucket),
        ),
    )


def fluid_misses(arrivals: NDArray[np.int64], served_rps: Floats, *, patience_s: int) -> Floats:
    """Requests of each second that a fluid queue does not serve by the end of the second ``patience_s`` later.

    ``served_rps``: float64[seconds], what the fleet can serve in each.
    """
    came: Floats = np.cumsum(arrivals, dtype=np.float64)
    surplus = np.cumsum(arrivals - served_rps)
    # A queue is the sum so far less the lowest that it has been, or less nothing.
    served = came - (surplus - np.minimum(0.0, np.minimum.accumulate(surplus)))
    by_then = served[np.minimum(np.arange(len(came)) + patience_s, len(came) - 1)]
    before = np.concatenate([[0.0], came[:-1]])
    late: Floats = np.clip(came - np.maximum(by_then, before), 0.0, None)
    return late


def _buckets(result: RunResult, *, warmup_s: int) -> Buckets:
    """Of the scored part; the look at the begin closes no step."""
    line = result.timeline
    scored = line.at_s > warmup_s
    length_s = bucket_length_s(result.scored_s, step_s=_STEP_S)
    per_bucket = round(length_s / _STEP_S)
    return Buckets(
        bucket_s=length_s,
        demand_rps=means(line.demand_rps[scored], per_bucket),
        ready=means(line.ready[scored], per_bucket),
        starting=means(line.starting[scored], per_bucket),
        missed=sums(line.missed[scored], per_bucket),
    )
