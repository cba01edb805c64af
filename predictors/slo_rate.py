"""The rate at which a wanted share of one replica's requests meets the SLO, in closed form from its step time.

In the steady state at lambda requests/s a step takes T = c / (1 - lambda*w), where a request's work is
w = a*E[p] + d*E[o] + e*(E[p*o] + E[o^2]/2). Around that mean a request meets more or less load. Those miss the SLO
for whom one of these takes too long:

- ITL: the batch it decodes in (its size fluctuates as that of a processor-sharing queue, pooled over the fleet by
  the router; its contexts differ and are not pooled) and the prompts that are prefilled during its life
  (compound Poisson, each lengthened by those that arrive meanwhile);
- TTFT: the step in progress, the prompts before it (an M/G/1 queue) and its own prefill;
- slots: a wait for one of max_num_seqs sequences, or for KV memory (an M/G/c queue).

docs/capacity.md derives the formulas and shows their error against a step-by-step engine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from autoscaler.domain.capacity import CapacityLimit, StepTime
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.service import Slo
from predictors.interpolation import interpolate
from predictors.lengths import Lengths, normal_nodes

Array = NDArray[np.float64]

# Calibrated on 196 combinations of profile, lengths and fleet against the step-by-step engine (docs/capacity.md).
_BATCH_SPREAD = 3.0  # variance of the batch over that of a processor-sharing queue at the mean load
_PREFILL_FEEDBACK = 3.0  # exponent of 1/(1 - prefill share) for a replica alone; a router takes it away
_ROUTER_AVOIDS = 1.0 / 3.0  # how soon a router that counts requests in flight has to choose a busy replica again
_FLEET_WAIT = 0.5  # prefill queue of a replica in a large fleet over that of one alone
_STEPS_TO_FIRST = 1.5  # half the step in progress, and the step that ends the prefill
_PATIENCE_S = 10.0  # wait for a slot that is tolerated where the SLO names none
_KV_Z = 2.33  # the KV cache overflows in 1 % of the time

_COARSE = normal_nodes(11, 2.8)
_FINE = normal_nodes(17, 3.4)
# Rates that are tried, as parts of the one at which the mean request misses; the first stands for an idle replica.
_TRIED = np.array([0.001, 0.02, 0.05, 0.12, 0.25, 0.4, 0.55, 0.7, 0.82, 0.92, 1.0])[:, None]
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

    def rps_at_batch(self, batch: float) -> float:
        """The rate at which, in the mean, ``batch`` sequences run."""
        moment, step = self.lengths.moment, self.step
        held = moment(1, 1) + moment(0, 2) / 2
        work_s = step.a_s * moment(1, 0) + step.d_s * moment(0, 1) + step.e_s * held
        return batch / (moment(0, 1) * step.c_s + batch * work_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class SloRate:
    """The rate, the limit that binds it, and the share of requests that misses even on an idle replica."""

    rps: float
    limit: CapacityLimit
    misses_alone: float


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
    top_rps = _top_rps(terms, slo)
    misses = _misses(terms, workload.lengths, slo, top_rps * _TRIED)
    total = misses[0] + misses[1] + misses[2]
    alone = float(total[0])
    if alone > 0.5:
        return Unknown(UnknownReason.UNSATISFIABLE, f"{alone:.0%} of the requests miss the SLO on an idle replica")
    allowed = _allowed(alone, slo.share)
    above = int((total > allowed).argmax()) or len(_TRIED) - 1
    kinds = (CapacityLimit.ITL, CapacityLimit.TTFT, terms.slots_limit)
    limit = kinds[int(misses[:, above].argmax())]
    if total[above] <= allowed:
        return SloRate(rps=top_rps, limit=limit, misses_alone=alone)
    # The probit of the share that misses is nearly a straight line over the logarithm of the rate.
    probits = ndtri(np.minimum(total + 1e-12, 1.0 - 1e-9))
    part_log = interpolate(probits, _TRIED_LOG, below=above - 1, at=float(ndtri(allowed)))
    return SloRate(rps=top_rps * math.exp(part_log), limit=limit, misses_alone=alone)


def _allowed(alone: float, share: float) -> float:
    """The share that may miss. Requests that miss on an idle replica can't be helped by more replicas: where they
    use up half of what may miss, the other half is granted on top of them.
    """
    missed = 1.0 - share
    return missed if alone <= missed / 2 else alone + missed / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Terms:
    """What a workload's formulas need, in seconds, tokens and requests.

    ``work_s`` w; ``each_s`` step time per running sequence, ``each_var`` its variance over the batch; ``life`` mean
    output length as the batch sees it; ``slots`` sequences that fit; ``pooled`` 1/fleet.
    """

    step: StepTime
    prompt: float
    prompt_sq: float
    output: float
    output_cv_sq: float
    work_s: float
    each_s: float
    each_var: float
    life: float
    slots: float
    slots_limit: CapacityLimit
    batch_tokens: float
    pooled: float


def _terms(workload: Workload) -> _Terms | Unknown:
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
    return _Terms(
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


def _top_rps(terms: _Terms, slo: Slo) -> float:
    """A rate at which the mean request misses the SLO, or the replica saturates."""
    top = 0.995 if slo.itl_s is None else min(1.0 - terms.step.c_s / slo.itl_s, 0.995)
    rps = top / max(terms.work_s, 1e-12)
    if math.isfinite(terms.slots):
        slot_s = terms.output * (terms.step.c_s / terms.slots + terms.each_s)
        rps = min(rps, 1.0 / (slot_s + terms.step.a_s * terms.prompt))
    return rps


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steady:
    """The steady state at some rates; arrays of shape (rates, 1).

    ``step_s`` T, ``decode_s`` its part without prefill, ``batch`` B, ``slowdown`` T/c, ``rest`` share of time without
    prefill.
    """

    rps: Array
    step_s: Array
    decode_s: Array
    batch: Array
    slowdown: Array
    rest: Array


def _steady(terms: _Terms, rps: Array) -> _Steady:
    slowdown = 1.0 / (1.0 - rps * terms.work_s)
    step_s = terms.step.c_s * slowdown
    rest = 1.0 - rps * (terms.step.a_s * terms.prompt)
    batch = rps * step_s * terms.output
    return _Steady(rps=rps, step_s=step_s, decode_s=step_s * rest, batch=batch, slowdown=slowdown, rest=rest)


def _misses(terms: _Terms, lengths: Lengths, slo: Slo, rps: Array) -> Array:
    """Shares of requests that miss for ITL, TTFT and slots, shape (3, rates), at rates of shape (rates, 1)."""
    now = _steady(terms, rps)
    start = _start(terms, now)
    own_s = start.token_s * terms.prompt
    missed = np.zeros((3, len(rps)))
    patience_s: Array | float = _PATIENCE_S
    if slo.itl_s is not None or slo.e2e_s is not None:
        normal, weights = _COARSE if slo.e2e_s is None else _FINE
        outputs = lengths.outputs(normal)
        steps = np.maximum(outputs - 1.0, 1.0)
        threshold_s: Array | float = math.inf if slo.itl_s is None else slo.itl_s
        if slo.e2e_s is not None:
            left_s = slo.e2e_s - start.wait_s - own_s
            threshold_s = np.maximum(np.minimum(threshold_s, left_s / steps), terms.step.c_s + 1e-9)
            patience_s = np.minimum(patience_s, left_s - terms.output * now.step_s)
        # A request of one token has no ITL.
        missed[0] = _above_itl(terms, now, threshold_s, steps) @ (weights * (outputs >= 1.5))
    normal, weights = _FINE
    if slo.ttft_s is not None:
        left_s = slo.ttft_s - start.token_s * lengths.prompts(normal)
        missed[1] = _above_gamma(left_s, start.wait_s, start.wait_var) @ weights
        patience_s = np.minimum(patience_s, slo.ttft_s - start.wait_s - own_s)
    if slo.queue_s is not None:
        missed[1] += _above_gamma(slo.queue_s + 0 * own_s, start.wait_s, start.wait_var)[:, 0]
        patience_s = np.minimum(patience_s, slo.queue_s - start.wait_s)
    missed[1][start.unstable[:, 0]] = 1.0
    if math.isfinite(terms.slots):
        missed[2] = _above_patience(terms, now, np.maximum(patience_s, 0.0))[:, 0]
    return missed


def _above_itl(terms: _Terms, now: _Steady, threshold_s: Array | float, steps: Array) -> Array:
    """P(ITL > threshold) by rate and by the number of steps after the first token."""
    c_s, pooled = terms.step.c_s, terms.pooled
    prompt_s = terms.step.a_s * terms.prompt
    prompt_var = terms.step.a_s**2 * terms.prompt_sq
    lives = 2.0 * steps / terms.life

    bursts = now.rps / now.step_s * (prompt_var / terms.output) * now.slowdown ** (1.0 + pooled)
    batch_var = (now.decode_s - c_s) ** 2 * ((_BATCH_SPREAD * pooled) * now.slowdown / now.batch + bursts)
    decode_var = batch_var * _averaged(lives / now.slowdown) + now.batch * terms.each_var * _averaged(lives)
    # The request itself is one more than the mean batch; alone, it also slows the others down, and they stay longer.
    decode_s = now.decode_s + now.rest * terms.each_s * (1.0 - pooled + now.slowdown * pooled)

    in_flight = now.batch + now.rps * (prompt_s + now.step_s)
    met_rps = now.rps * (1.0 - (1.0 - pooled) * np.exp(-_ROUTER_AVOIDS * in_flight * in_flight))
    met = met_rps * (steps * decode_s + pooled * (prompt_s + now.step_s))
    some = -np.expm1(-met)
    share = met / (some * steps)
    prefill_s = share * (prompt_s / now.rest)
    prefill_var = share / steps * (prompt_var * now.rest ** -(1.0 + _PREFILL_FEEDBACK * pooled))
    prefill_var = np.maximum(prefill_var - prefill_s * prefill_s * (1.0 - some), 0.0)

    left_s = threshold_s - c_s
    over_s = decode_s - (c_s - 1e-9)
    decode_var += 1e-18
    quiet = _above_gamma(left_s, over_s, decode_var)
    busy = _above_lognormal(left_s, over_s + prefill_s, decode_var + prefill_var)
    missed: Array = quiet + some * (busy - quiet)
    return missed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """Before a request's first token; arrays of shape (rates, 1): the time for others and for whole steps (mean and
    variance), its own prefill per prompt token, and where prompts come faster than they are prefilled.
    """

    wait_s: Array
    wait_var: Array
    token_s: Array
    unstable: NDArray[np.bool_]


def _start(terms: _Terms, now: _Steady) -> _Start:
    room = np.maximum(terms.batch_tokens - now.batch, 1.0)
    token_s = terms.step.a_s + now.decode_s / room  # a prompt that fills steps pays for the decoding in them
    busy = now.rps * token_s * terms.prompt
    unstable = busy > 0.999
    busy = np.minimum(busy, 0.999)
    share = terms.pooled + (1.0 - terms.pooled) * _FLEET_WAIT
    queue_s = now.rps * token_s * token_s * (share * terms.prompt_sq / 2.0) / (1.0 - busy)
    # Prompts that arrive while the step in progress lasts are prefilled together: each waits for all.
    together_s = now.rps * now.step_s * (2.0 * share * terms.step.a_s)
    wait_s = _STEPS_TO_FIRST * now.decode_s + queue_s + together_s * terms.prompt
    wait_var = now.decode_s * now.decode_s / 4.0 + together_s * (terms.step.a_s * terms.prompt_sq)
    wait_var += queue_s * queue_s * (2.0 / (busy + 1e-12) - 1.0)
    return _Start(wait_s=wait_s, wait_var=wait_var, token_s=token_s, unstable=unstable)


def _above_patience(terms: _Terms, now: _Steady, patience_s: Array) -> Array:
    """P(wait for a free slot > patience) by rate: an M/G/c queue whose servers work at the pace of a full batch."""
    slot_s = (terms.output * (terms.step.c_s + terms.slots * terms.each_s)) / np.maximum(now.rest, 1e-9)
    used = now.rps * slot_s / terms.slots
    fleet_slots = terms.slots / math.sqrt(terms.pooled)
    all_busy = np.minimum(used, 1.0) ** (math.sqrt(2.0 * (fleet_slots + 1.0)) - 1.0)
    # Where decoding slows with the batch, a small batch goes faster than a full one and rarely gets to be full.
    batch_var = now.batch * now.slowdown * math.sqrt(terms.pooled)
    all_busy = np.minimum(all_busy, _above_gamma(terms.slots, now.batch, batch_var))
    drain_rps = (2.0 * fleet_slots / (1.0 + terms.output_cv_sq)) * np.maximum(1.0 - used, 0.0) / slot_s
    missed: Array = np.where(used < 0.995, all_busy * np.exp(-drain_rps * patience_s), 1.0)
    return missed


def _above_gamma(threshold: Array | float, mean: Array, variance: Array) -> Array:
    """P(X > threshold) of a gamma variable, by Wilson and Hilferty's cube root."""
    ninth = variance / (9.0 * mean * mean)
    tail: Array = ndtr((1.0 - ninth - np.cbrt(threshold / mean)) / np.sqrt(ninth))
    return tail


def _above_lognormal(threshold: Array | float, mean: Array, variance: Array) -> Array:
    """P(X > threshold) of a lognormal variable."""
    spread = np.log1p(variance / (mean * mean))
    tail: Array = ndtr((np.log(mean / threshold) - spread / 2.0) / np.sqrt(spread))
    return tail


def _averaged(lives: Array) -> Array:
    """Variance left of a process with exponential memory when averaged over ``lives`` times its memory."""
    left: Array = (2.0 * (lives + np.expm1(-lives))) / (lives * lives)
    return left
