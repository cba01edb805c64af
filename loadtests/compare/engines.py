"""How much a simulated engine bears: the share that misses the SLO at steady loads, measured on a small fleet."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adapters.simulation.engine_fleet import EngineFleet
from adapters.simulation.requests import Requests
from adapters.simulation.step_times import EngineShape, StepTimes
from autoscaler.domain.service import Slo
from loadtests.arrivals import from_profile
from loadtests.bounds.slo import Floats, MissCurve
from loadtests.lengths import LengthQuantiles
from loadtests.rates import steps
from loadtests.workloads.choosing import AnyWorkload
from loadtests.workloads.workload import peak_of_rates

# As many replicas as the least-loaded router needs to even out single requests (larger fleets bear 1-4 % more).
_REPLICAS = 10
_SPAN_S, _SETTLED_S = 900.0, 300.0
_LOADS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.1, 1.2, 1.4)
# Of all requests, taken evenly; and of those of one stretch.
_DRAWN, _SAMPLE = 1_000_000, 20_000
# Lengths change over the day: a curve for each stretch of at least an hour, and a day's or more has so many.
_STRETCH_S, _MOST_STRETCHES = 3600.0, 24
# Of a stretch, to say anything about its lengths.
_FEWEST = 200
_BLOCK_S = 60


@dataclass(frozen=True, slots=True, eq=False)
class MissCurves(MissCurve):
    """Of stretches of equal length one after another, whose requests differ in length; its own points are those of the
    whole.

    ``stretches``: the curve of each. ``duration_s``: of all together. ``begin_s``: where in it the first block is.
    """

    stretches: tuple[MissCurve, ...]
    duration_s: float
    begin_s: float = 0.0

    def missed(self, load_rps: Floats) -> Floats:
        """Share missed at float64[blocks, ...] of loads, in blocks of 60 s from ``begin_s`` on."""
        middles_s = self.begin_s + (np.arange(len(load_rps), dtype=np.float64) + 0.5) * _BLOCK_S
        at = _stretch_of(middles_s, len(self.stretches), self.duration_s)
        share: Floats = np.empty_like(load_rps)
        for number, curve in enumerate(self.stretches):
            share[at == number] = MissCurve.missed(curve, load_rps[at == number])
        return share


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """``curve``: misses by load. ``capacity_rps``: the largest load at which the promise is kept, with requests of all
    lengths of the workload. ``service_s``: mean time from arrival to the last token there. ``peak_replicas``: that the
    neediest minute of the workload takes.
    """

    curve: MissCurves
    capacity_rps: float
    service_s: float
    peak_replicas: float


@functools.lru_cache(maxsize=4)
def measured(workload: AnyWorkload, *, times: StepTimes, shape: EngineShape, slo: Slo) -> Measured:
    """Of engines under the lengths of ``workload``. Raises ValueError where no load at all keeps the promise."""
    seconds = max(1, int(workload.duration_s))
    rate = workload.counts(0).arrivals
    if not rate.sum():
        raise ValueError("a workload without requests has no lengths to measure an engine with")
    drawn = workload.scaled(min(1.0, _DRAWN / float(rate.sum()))).requests(0)
    if not len(drawn):
        raise ValueError("a workload without requests has no lengths to measure an engine with")
    engine = functools.partial(_curve, times=times, shape=shape, slo=slo)
    whole, services_s = engine(drawn, np.arange(len(drawn)))
    kept = np.flatnonzero(whole.shares <= 1 - slo.share)
    if not len(kept):
        raise ValueError(
            f"these engines miss {whole.shares[0]:.1%} of this traffic even at a tenth of what they can do, more than "
            f"the {1 - slo.share:.1%} that the SLO allows"
        )
    count = int(np.clip(workload.duration_s // _STRETCH_S, 1, _MOST_STRETCHES))
    at = _stretch_of(drawn.at_s, count, workload.duration_s)
    places = [np.flatnonzero(at == number) for number in range(count)]
    stretches = [engine(drawn, each)[0] if count > 1 and len(each) >= _FEWEST else whole for each in places]
    needs = []
    for number, curve in enumerate(stretches):
        first, last = (seconds * place // count for place in (number, number + 1))
        needs.append(peak_of_rates(rate[first:last].astype(np.float64)) / _bears_rps(curve, slo))
    return Measured(
        curve=MissCurves(whole.loads_rps, whole.shares, tuple(stretches), workload.duration_s),
        capacity_rps=_bears_rps(whole, slo),
        service_s=float(services_s[kept[-1]]),
        # The busiest minute as expected, not as it was drawn here.
        peak_replicas=max(needs) * workload.peak_rps() / peak_of_rates(rate.astype(np.float64)),
    )


def _stretch_of(at_s: Floats, count: int, duration_s: float) -> NDArray[np.int64]:
    return np.minimum((at_s * (count / duration_s)).astype(np.int64), count - 1)


def _bears_rps(curve: MissCurve, slo: Slo) -> float:
    """The largest load that keeps the promise, read between the points measured; at least half of the first."""
    missed, allowed = curve.shares, 1 - slo.share
    over = np.flatnonzero(missed > allowed)
    if not len(over):
        return float(curve.loads_rps[-1])
    place = int(over[0])
    if place == 0:
        return float(curve.loads_rps[0]) / 2
    low, high = curve.loads_rps[place - 1 : place + 1]
    share = (allowed - missed[place - 1]) / (missed[place] - missed[place - 1])
    return float(low + (high - low) * share)


def _curve(
    drawn: Requests, places: NDArray[np.int64], *, times: StepTimes, shape: EngineShape, slo: Slo
) -> tuple[MissCurve, Floats]:
    """Of requests with the lengths of those at ``places``; and the mean seconds to the last token at each load."""
    some = places[np.linspace(0, len(places) - 1, min(_SAMPLE, len(places))).astype(np.int64)]
    prompts = LengthQuantiles.of_sample(drawn.prompt_tokens[some])
    outputs = LengthQuantiles.of_sample(drawn.output_tokens[some])
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
    return MissCurve(np.array(loads), np.maximum.accumulate(np.array(shares))), np.array(service)


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
