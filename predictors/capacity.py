"""The shipped CapacityModel: what one replica serves within the SLO, from the best knowledge there is of it.

1. A step time: fitted to measured windows; else the variant's profile, scaled to the measured ITL; else typical
   proportions, scaled so. From it the rate in closed form (predictors/slo_rate.py).
2. The service rate of windows in which requests waited all the time, times the utilisation that keeps waits short.
   It also bounds 1: what a saturated replica did not serve, no formula promises.
3. Nothing but durations: concurrency that was seen to go well, over the unloaded duration (Little's law). Never the
   in-flight with its queue in it, which grows with latency and so asks for ever more replicas.
4. Unknown.

A batch server, known by its executions, has a batch time instead (predictors/batch_memory.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from autoscaler.domain.capacity import (
    CapacityLimit,
    CapacitySource,
    LoadSample,
    ReplicaCapacity,
    RequestShape,
    StepTime,
)
from autoscaler.domain.learned import Learned
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.service import Slo, Variant
from predictors import batch_memory
from predictors.lengths import Lengths
from predictors.load_memory import LoadMemory
from predictors.observed_rate import saturated_rate, unloaded_rate
from predictors.slo_rate import Workload, rps_at_slo
from predictors.step_time import TYPICAL, Fit, Misfit, in_proportion, measured_scale, scaled

MODEL = "step-time"

# A declared profile is off by its error and by the engine's version and flags, not by more than this.
_MOST_SCALE = 4.0
# Where the SLO was missed at every batch seen, this part of the smallest is tried next.
_BELOW_SEEN = 0.5
# A step time that was learned says little about batches far beyond those seen; larger ones are tried gradually.
_BEYOND_SEEN = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownStep:
    """A step time and where it comes from.

    ``beyond_seen``: it holds for batches larger than any seen. ``one_load``: it was scaled to windows of one load, so
    that its terms are known only together.
    """

    step: StepTime
    source: CapacitySource
    detail: str
    beyond_seen: bool
    one_load: bool


class StepTimeCapacity:
    """Learns one replica's step time from measured load and answers with its rate at the SLO; holds no state.

    ``batch_tokens``: tokens that one step of the engine may take in (vLLM's ``max_num_batched_tokens``; its smaller
    default is assumed, which is the safe side for the time to first token).
    """

    def __init__(self, *, batch_tokens: int = 2048) -> None:
        self.batch_tokens = batch_tokens

    def start(self) -> Learned:
        """The memory of one that has seen nothing."""
        return Learned(MODEL, LoadMemory.empty().to_arrays())

    def learn(self, learned: Learned, sample: LoadSample) -> Learned:
        """With one more window. Parts of it that are unknown or impossible teach nothing."""
        return Learned(MODEL, _memory(learned).with_sample(sample).to_arrays())

    def capacity(
        self, learned: Learned, *, variant: Variant, shape: RequestShape | Unknown, slo: Slo, fleet: int
    ) -> ReplicaCapacity | Unknown:
        """The rate of one replica, among ``fleet`` equal ones, with ``slo.share`` of requests within the SLO.

        Unknown(UNSATISFIABLE): most requests would miss the SLO even alone. Unknown(IMPOSSIBLE_FIT): the measured
        windows contradict every step time, and nothing else is known. Unknown(NO_OBSERVATIONS): nothing is.
        """
        memory = _memory(learned)
        promises_no_tokens = slo.ttft_s is None and slo.itl_s is None
        if len(memory.batches) or (promises_no_tokens and batch_memory.declared(variant) is not None):
            return batch_memory.capacity_of(memory.batches, variant=variant, slo=slo)
        return self._of_tokens(memory, variant=variant, shape=shape, slo=slo, fleet=fleet)

    def _of_tokens(
        self, memory: LoadMemory, *, variant: Variant, shape: RequestShape | Unknown, slo: Slo, fleet: int
    ) -> ReplicaCapacity | Unknown:
        lengths = shape if isinstance(shape, Unknown) else Lengths.of(shape)
        seen = saturated_rate(memory, lengths, slo)
        modelled = self._modelled(memory, lengths, variant=variant, slo=slo, fleet=max(1, fleet))
        if isinstance(modelled, Unknown):
            if seen is not None:
                detail = f"{seen.detail}; no step time: {modelled}"
                return ReplicaCapacity(
                    rps=seen.rps, limit=CapacityLimit.SATURATION, source=CapacitySource.OBSERVED, detail=detail
                )
            if modelled.reason is UnknownReason.UNSATISFIABLE:
                return modelled
            alone = unloaded_rate(memory, variant, slo)
            if alone is None:
                return modelled
            return ReplicaCapacity(
                rps=alone.rps,
                limit=CapacityLimit.UNLOADED_DURATION,
                source=CapacitySource.LITTLE,
                detail=f"{alone.detail}; no step time: {modelled}",
            )
        if seen is not None and modelled.rps > seen.most_rps:
            detail = f"{seen.detail}; the step time would allow {modelled.rps:.3g} req/s"
            return replace(modelled, rps=seen.rps, limit=CapacityLimit.SATURATION, detail=detail)
        return modelled

    def _modelled(
        self, memory: LoadMemory, lengths: Lengths | Unknown, *, variant: Variant, slo: Slo, fleet: int
    ) -> ReplicaCapacity | Unknown:
        known = _known_step(memory, variant)
        if isinstance(known, Unknown):
            return known
        if isinstance(lengths, Unknown):
            return lengths
        slots = variant.max_num_seqs if variant.max_num_seqs is not None else memory.most_running_saturated()
        workload = Workload(
            step=known.step,
            lengths=lengths,
            fleet=fleet,
            batch_tokens=self.batch_tokens,
            max_num_seqs=slots,
            kv_tokens=variant.kv_tokens,
        )
        rate, detail = rps_at_slo(workload, slo), known.detail
        if isinstance(rate, Unknown) and variant.step_time is None and slo.itl_s is not None:
            # Learned from ITL alone, the prefill time is mostly a guess, too little to call an SLO out of reach.
            rate = rps_at_slo(workload, Slo(itl_s=slo.itl_s, share=slo.share))
            detail += "; the time to first token isn't known well enough to be judged"
        if isinstance(rate, Unknown):
            return _smaller_batch(memory, lengths) if known.one_load else rate
        rps, limit = rate.rps, rate.limit
        if rate.misses_alone > (1.0 - slo.share) / 2:
            detail += f"; {rate.misses_alone:.1%} of the requests miss the SLO even on an idle replica"
        if not known.beyond_seen:
            seen_rps = workload.rps_at_batch(_BEYOND_SEEN * memory.largest_batch())
            if seen_rps < rps:
                rps, limit = seen_rps, CapacityLimit.LARGEST_SEEN
                detail += f"; no more than {_BEYOND_SEEN:g} times the largest batch seen ({memory.largest_batch():.3g})"
        return ReplicaCapacity(rps=rps, limit=limit, source=known.source, detail=detail)


def _smaller_batch(memory: LoadMemory, lengths: Lengths) -> ReplicaCapacity:
    """Windows of one load can't tell that the SLO is out of reach, only that it was missed: less load shows more."""
    smallest = memory.loads[memory.loads[:, 1].argmin()]
    batch, itl_s = float(smallest[1]), float(smallest[5])
    return ReplicaCapacity(
        rps=_BELOW_SEEN * batch / (lengths.moment(0, 1) * itl_s),
        limit=CapacityLimit.ITL,
        source=CapacitySource.OBSERVED,
        detail=f"the SLO is missed with {batch:.3g} running, the least seen (ITL {itl_s:.3g} s); half of it is tried",
    )


def _memory(learned: Learned) -> LoadMemory:
    if learned.model != MODEL:
        raise ValueError(f"the memory of a {learned.model!r} estimator can't be read as that of {MODEL!r}")
    return LoadMemory.of_arrays(learned.arrays)


def _known_step(memory: LoadMemory, variant: Variant) -> _KnownStep | Unknown:
    """The best step time there is, or why there is none."""
    fit = memory.fitted()
    declared = variant.step_time is not None
    if isinstance(fit, Fit):
        step = fit.step if variant.step_time is None else in_proportion(fit, variant.step_time, memory.loads)
        detail = f"step time fitted to {len(memory.loads)} windows, error {fit.error:.0%}"
        return _KnownStep(step=step, source=CapacitySource.FITTED, detail=detail, beyond_seen=declared, one_load=False)
    if fit is not Misfit.TOO_ALIKE and not declared:
        return Unknown(UnknownReason.IMPOSSIBLE_FIT, fit)
    refused = "" if fit is Misfit.TOO_ALIKE else f"; fit refused: {fit}"
    scale = measured_scale(variant.step_time or TYPICAL, memory.loads)
    if variant.step_time is not None:
        bounded = min(max(1.0 if scale is None else scale, 1.0 / _MOST_SCALE), _MOST_SCALE)
        measured = "not yet measured" if scale is None else f"times {bounded:.2f} as measured"
        detail = f"step time of the profile, {measured}{refused}"
        step = scaled(variant.step_time, bounded)
        one_load = scale is not None
        return _KnownStep(step=step, source=CapacitySource.PROFILE, detail=detail, beyond_seen=True, one_load=one_load)
    if scale is None:
        return Unknown(UnknownReason.NO_OBSERVATIONS, "no step-time profile, and too few windows with an ITL")
    detail = f"step time of typical proportions, scaled to the ITL of {len(memory.loads)} windows"
    step = scaled(TYPICAL, scale)
    return _KnownStep(step=step, source=CapacitySource.PROFILE, detail=detail, beyond_seen=False, one_load=True)
