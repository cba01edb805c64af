"""The rate at which a wanted share of one replica's requests meets the SLO, in closed form from its step time.

In the steady state at lambda requests/s a step takes T = c / (1 - lambda*w), where a request's work is
w = a*E[p] + d*E[o] + e*(E[p*o] + E[o^2]/2). Around that mean requests are lucky or not; predictors/miss_shares.py says
how many miss, and here the rate is found at which no more miss than may.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from autoscaler.domain.capacity import CapacityLimit, StepTime
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.service import Slo
from predictors.interpolation import interpolate
from predictors.lengths import Lengths
from predictors.miss_shares import Terms, miss_shares

_FIRST_STEPS = 3.0  # a request waits no more steps than this on an idle replica
_MISSED_ALONE = 0.75  # part of those that may miss which an idle replica may use up
_KV_Z = 2.33  # the KV cache overflows in 1 % of the time

# Rates that are tried, as parts of the one at which the mean request misses; the first stands for an idle replica.
_TRIED = np.array([0.001, 0.02, 0.05, 0.12, 0.25, 0.4, 0.55, 0.7, 0.82, 0.91, 0.97, 1.0])[:, None]
_TRIED_LOG = np.log(_TRIED[:, 0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """An engine, its requests and the fleet it belongs to.

    ``batch_tokens``: tokens that one step may take in (vLLM's max_num_batched_tokens). ``max_num_seqs`` and
    ``kv_tokens``: the engine's limits, None where not known. ``fleet``: replicas that share the load.
    """

    step: StepTime
    lengths: Lengths
    fleet: int
    batch_tokens: int
    max_num_seqs: float | None = None
    kv_tokens: float | None = None

    def work_s(self) -> float:
        """w: what a mean request adds to the engine's steps."""
        moment, step = self.lengths.moment, self.step
        held = moment(1, 1) + moment(0, 2) / 2
        return step.a_s * moment(1, 0) + step.d_s * moment(0, 1) + step.e_s * held

    def mean_rps(self, *, itl_s: float) -> float:
        """The rate at which the mean step takes ``itl_s``: an upper bound, half of the requests miss there."""
        return (1.0 - self.step.c_s / itl_s) / self.work_s()

    def rps_at_batch(self, batch: float) -> float:
        """The rate at which, in the mean, ``batch`` sequences run."""
        return batch / (self.lengths.moment(0, 1) * self.step.c_s + batch * self.work_s())


@dataclass(frozen=True, slots=True, kw_only=True)
class SloRate:
    """The rate, the limit that binds it, and the share of requests that misses even on an idle replica."""

    rps: float
    limit: CapacityLimit
    misses_alone: float


@lru_cache(maxsize=4096)  # while a service is idle, its workload is the same at every tick
def rps_at_slo(workload: Workload, slo: Slo) -> SloRate | Unknown:
    """The largest rate at which ``slo.share`` of the requests meets all of its thresholds.

    Unknown(UNSATISFIABLE) where most requests miss even on an idle replica, or one doesn't fit its KV cache.
    """
    terms = _terms(workload)
    if isinstance(terms, Unknown):
        return terms
    if slo.itl_s is not None and terms.step.c_s >= slo.itl_s:
        detail = f"an empty step takes {terms.step.c_s:.4g} s, the SLO allows {slo.itl_s:g} s between tokens"
        return Unknown(UnknownReason.UNSATISFIABLE, detail)
    aim = _reachable(terms, workload.lengths, slo)
    alone = 0.0
    if aim != slo:
        idle_rps = _top_rps(terms, slo) * _TRIED[:1]
        alone = float(miss_shares(terms, workload.lengths, slo, idle_rps).sum())
        if alone > 0.5:
            return Unknown(UnknownReason.UNSATISFIABLE, f"{alone:.0%} of the requests miss the SLO on an idle replica")
    top_rps = _top_rps(terms, aim)
    misses = miss_shares(terms, workload.lengths, aim, top_rps * _TRIED)
    total = misses[0] + misses[1] + misses[2]
    allowed = max(1.0 - slo.share, float(total[0]) + (1.0 - _MISSED_ALONE) * (1.0 - slo.share))
    above = int((total > allowed).argmax()) or len(_TRIED) - 1
    kinds = (CapacityLimit.ITL, CapacityLimit.TTFT, terms.slots_limit)
    limit = kinds[int(misses[:, above].argmax())]
    if total[above] <= allowed:
        return SloRate(rps=top_rps, limit=limit, misses_alone=alone)
    # The probit of the share that misses is nearly a straight line over the logarithm of the rate, but for a jump where
    # a replica saturates; of that jump only the foot counts.
    probits = ndtri(np.minimum(total + 1e-12, 0.9))
    part_log = interpolate(probits, _TRIED_LOG, below=above - 1, at=float(ndtri(allowed)))
    return SloRate(rps=top_rps * math.exp(part_log), limit=limit, misses_alone=alone)


def _reachable(terms: Terms, lengths: Lengths, slo: Slo) -> Slo:
    """The SLO with each threshold raised to what an idle replica reaches for all but 3/4 of those that may miss.

    Requests that are late on an idle replica (long prompts, mostly) can't be helped by more replicas; without this
    they would use up what may miss, and ever more replicas would be asked for.
    """
    z = float(ndtri(1.0 - _MISSED_ALONE * (1.0 - slo.share)))
    c_s, token_s = terms.step.c_s, terms.step.a_s + terms.step.c_s / terms.batch_tokens
    itl_s = c_s + terms.each_s + z * math.sqrt(terms.each_var)
    ttft_s = _FIRST_STEPS * c_s + token_s * math.exp(lengths.prompt_log + z * math.sqrt(lengths.prompt_var))
    prefill_s, decode_s = token_s * terms.prompt, terms.output * (c_s + terms.each_s)
    longest = math.exp(lengths.output_log + z * math.sqrt(lengths.output_var)) / terms.output
    e2e_s = prefill_s + decode_s + math.hypot(ttft_s - prefill_s, (longest - 1.0) * decode_s)
    queue_s = _FIRST_STEPS * c_s
    if (
        itl_s <= (slo.itl_s or math.inf)
        and ttft_s <= (slo.ttft_s or math.inf)
        and e2e_s <= (slo.e2e_s or math.inf)
        and queue_s <= (slo.queue_s or math.inf)
    ):
        return slo
    return Slo(
        ttft_s=slo.ttft_s and max(slo.ttft_s, ttft_s),
        itl_s=slo.itl_s and max(slo.itl_s, itl_s),
        queue_s=slo.queue_s and max(slo.queue_s, queue_s),
        e2e_s=slo.e2e_s and max(slo.e2e_s, e2e_s),
        share=slo.share,
    )


def _terms(workload: Workload) -> Terms | Unknown:
    step, moment = workload.step, workload.lengths.moment
    prompt, output, output_sq = moment(1, 0), moment(0, 1), moment(0, 2)
    held = moment(1, 1) + output_sq / 2
    context = held / output
    context_var = max((moment(2, 1) + moment(1, 2) + moment(0, 3) / 3) / output - context**2, 0.0)
    slots, limit = math.inf, CapacityLimit.MAX_NUM_SEQS
    if workload.max_num_seqs is not None:
        slots = workload.max_num_seqs
    if workload.kv_tokens is not None:
        if workload.kv_tokens < prompt + output:
            needs = f"a mean request needs {prompt + output:.0f} tokens of KV cache, there are {workload.kv_tokens:.0f}"
            return Unknown(UnknownReason.UNSATISFIABLE, needs)
        # B sequences of random context fill B*context + z*sqrt(B*variance) tokens.
        spread = _KV_Z * math.sqrt(context_var)
        root = (math.sqrt(spread**2 + 4 * context * workload.kv_tokens) - spread) / (2 * context)
        fit = max(1.0, root**2)
        if fit < slots:
            slots, limit = fit, CapacityLimit.KV_MEMORY
    return Terms(
        step=step,
        prompt=prompt,
        prompt_sq=moment(2, 0),
        output=output,
        output_cv_sq=workload.lengths.output_cv_sq(),
        work_s=step.a_s * prompt + step.d_s * output + step.e_s * held,
        each_s=step.d_s + step.e_s * context,
        each_var=step.e_s**2 * context_var,
        life=output_sq / output,
        slots=slots,
        slots_limit=limit,
        batch_tokens=float(workload.batch_tokens),
        pooled=1.0 / workload.fleet,
    )


def _top_rps(terms: Terms, slo: Slo) -> float:
    """A rate at which the mean request misses the SLO, or the replica saturates."""
    top = 0.995 if slo.itl_s is None else min(1.0 - terms.step.c_s / slo.itl_s, 0.995)
    rps = top / max(terms.work_s, 1e-12)
    if math.isfinite(terms.slots):
        slot_s = terms.output * (terms.step.c_s / terms.slots + terms.each_s)
        rps = min(rps, 1.0 / (slot_s + terms.step.a_s * terms.prompt))
    return rps
