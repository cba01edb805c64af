"""How much a simulated engine bears: the share that misses the SLO at steady loads, measured on a small fleet."""

from __future__ import annotations

import dataclasses

import numpy as np

from adapters.simulation.engine_fleet import EngineFleet
from adapters.simulation.requests import Requests
from adapters.simulation.step_times import EngineShape, StepTimes
from autoscaler.domain.service import Slo
from loadtests.arrivals import from_profile
from loadtests.bounds.slo import MissCurve
from loadtests.lengths import LengthQuantiles
from loadtests.rates import steps
from loadtests.workloads.workload import Workload

# As many replicas as the least-loaded router needs to even out single requests (larger fleets bear 1-4 % more).
_REPLICAS = 10
_SPAN_S, _SETTLED_S = 900.0, 300.0
_LOADS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.1, 1.2, 1.4)
_SAMPLE = 20_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """``curve``: misses by load. ``capacity_rps``: the largest load at which the promise is kept. ``service_s``: mean
    time from arrival to the last token there.
    """

    curve: MissCurve
    capacity_rps: float
    service_s: float


def measured(workload: Workload, *, times: StepTimes, shape: EngineShape, slo: Slo) -> Measured:
    """Of engines under the lengths of ``workload``. Raises ValueError where no load at all keeps the promise."""
    sample = workload.requests(0)
    if not len(sample):
        raise ValueError("a workload without requests has no lengths to measure an engine with")
    prompts = LengthQuantiles.of_sample(sample.prompt_tokens[:_SAMPLE])
    outputs = LengthQuantiles.of_sample(sample.output_tokens[:_SAMPLE])
    saturated = _saturation_rps(times, shape, prompts.mean(), outputs.mean())
    loads, shares, service = [], [], []
    for load in _LOADS:
        rps = load * saturated
        missed, mean_s = _missed(rps, prompts, outputs, times=times, shape=shape, slo=slo)
        loads.append(rps)
        shares.append(missed)
        service.append(mean_s)
        if missed > 0.9:
            break
    # Sampling makes the curve rise by fits; misses never fall with the load.
    curve = MissCurve(np.array(loads), np.maximum.accumulate(np.array(shares)))
    kept = np.flatnonzero(curve.shares <= 1 - slo.share)
    if not len(kept):
        raise ValueError(
            f"these engines miss {curve.shares[0]:.1%} of this traffic even at a tenth of what they can do, more than "
            f"the {1 - slo.share:.1%} that the SLO allows"
        )
    last = int(kept[-1])
    return Measured(curve=curve, capacity_rps=float(loads[last]), service_s=float(service[last]))


def _saturation_rps(times: StepTimes, shape: EngineShape, prompt: float, output: float) -> float:
    """Where the batch is as large as it can be: a step of B sequences makes B tokens."""
    context = prompt + output / 2
    batch = max(1.0, min(shape.max_num_seqs, shape.kv_tokens / context))
    step_ps = times.c + batch * (times.d + times.e * context + times.a * prompt / output)
    return batch / output / (step_ps / 1e12)


def _missed(
    rps: float, prompts: LengthQuantiles, outputs: LengthQuantiles, *, times: StepTimes, shape: EngineShape, slo: Slo
) -> tuple[float, float]:
    """Share missed and mean seconds to the last token, at ``rps`` for each replica, once settled."""
    plan = from_profile(
        steps((rps * _REPLICAS, _SPAN_S)), prompts=prompts, outputs=outputs, dispersion=1.0, seed=0, label="steady"
    )
    requests = Requests(
        at_s=plan.at_s,
        prompt_tokens=plan.prompt_tokens,
        output_tokens=plan.output_tokens,
        cached_tokens=np.zeros(len(plan), dtype=np.int64),
        duration_s=_SPAN_S,
    )
    fleet = EngineFleet(requests, times=times, shape=shape, slo=slo)
    for _ in range(_REPLICAS):
        fleet.open(fleet.add())
    fleet.advance(2 * _SPAN_S)
    outcomes = fleet.outcomes()
    settled = requests.at_s >= _SETTLED_S
    if not settled.any():
        return 0.0, 0.0
    took = outcomes.e2e_s[settled]
    return float(1 - outcomes.in_slo(slo)[settled].mean()), float(np.nanmean(took)) if np.isfinite(took).any() else 0.0
