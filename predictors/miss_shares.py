"""Shares of requests that miss the SLO at a given rate, by what makes them late.

- ITL: the batch a request decodes in (its size fluctuates as that of a processor-sharing queue, pooled over the fleet
  by the router; its contexts differ and are not pooled) and the prompts that are prefilled during its life (compound
  Poisson, each lengthened by those that arrive meanwhile);
- TTFT: the step in progress, the prompts before it (an M/G/1 queue) and its own prefill;
- slots: a wait for one of max_num_seqs sequences, or for KV memory (an M/G/c queue).

docs/capacity.md derives the formulas and shows their error against a step-by-step engine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from autoscaler.domain.capacity import CapacityLimit, StepTime
from autoscaler.domain.service import Slo
from predictors.lengths import Lengths, Nodes

Array = NDArray[np.float64]

# Calibrated on 196 combinations of profile, lengths and fleet against the step-by-step engine (docs/capacity.md).
_BATCH_SPREAD = 3.0  # variance of the batch over that of a processor-sharing queue at the mean load
_PREFILL_FEEDBACK = 3.0  # exponent of 1/(1 - prefill share) for a replica alone; a router takes it away
_ROUTER_AVOIDS = 1.0 / 3.0  # how soon a router that counts requests in flight has to choose a busy replica again
_FLEET_WAIT = 0.5  # prefill queue of a replica in a large fleet over that of one alone
_QUEUE_SPREAD = 2.0  # variance of the prefill queue over that of an exponential wait: prompts have long tails
_STEPS_TO_FIRST = 1.5  # half the step in progress, and the step that ends the prefill
_PATIENCE_S = 10.0  # wait for a slot that is tolerated where the SLO names none

_COARSE = Nodes.normal(count=11, reach=2.8)
_FINE = Nodes.normal(count=17, reach=3.4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steady:
    """The steady state at some rates; arrays of shape (rates, 1).

    ``step_s`` T, ``decode_s`` its part without prefill, ``found_s`` the same as an arriving request finds it: alone,
    a replica holds T/c - 1 more than the fluid's batch B, since each one also slows the others down and they stay
    longer. ``batch`` B, ``slowdown`` T/c, ``rest`` share of time without prefill.
    """

    rps: Array
    step_s: Array
    decode_s: Array
    found_s: Array
    batch: Array
    slowdown: Array
    rest: Array


def _steady(terms: Terms, rps: Array) -> _Steady:
    slowdown = 1.0 / (1.0 - rps * terms.work_s)
    step_s = terms.step.c_s * slowdown
    rest = 1.0 - rps * (terms.step.a_s * terms.prompt)
    decode_s = step_s * rest
    return _Steady(
        rps=rps,
        step_s=step_s,
        decode_s=decode_s,
        found_s=decode_s + rest * (slowdown - 1.0) * (terms.each_s * terms.pooled),
        batch=rps * step_s * terms.output,
        slowdown=slowdown,
        rest=rest,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pace:
    """ITL of requests, arrays of shape (rates, lengths): mean and variance without others' prefill, the probability
    of any such prefill, and its mean and variance where there is any.
    """

    decode_s: Array
    decode_var: Array
    some: Array
    prefill_s: Array
    prefill_var: Array


def _pace(terms: Terms, now: _Steady, steps: Array) -> _Pace:
    """By rate and by the number of steps after the first token."""
    c_s, pooled = terms.step.c_s, terms.pooled
    prompt_s = terms.step.a_s * terms.prompt
    prompt_var = terms.step.a_s**2 * terms.prompt_sq
    lives = 2.0 * steps / terms.life

    bursts = now.rps / now.step_s * (prompt_var / terms.output) * now.slowdown ** (1.0 + pooled)
    batch_var = (now.decode_s - c_s) ** 2 * ((_BATCH_SPREAD * pooled) * now.slowdown / now.batch + bursts)
    decode_var = batch_var * _averaged(lives / now.slowdown) + now.batch * terms.each_var * _averaged(lives)
    # The request itself is one more in the batch that it found.
    decode_s = now.found_s + now.rest * terms.each_s

    in_flight = now.batch + now.rps * (prompt_s + now.step_s)
    met_rps = now.rps * (1.0 - (1.0 - pooled) * np.exp(-_ROUTER_AVOIDS * in_flight * in_flight))
    met = met_rps * (steps * decode_s + pooled * (prompt_s + now.step_s))
    some = -np.expm1(-met)
    share = met / (some * steps)
    prefill_s = share * (prompt_s / now.rest)
    prefill_var = share / steps * (prompt_var * now.rest ** -(1.0 + _PREFILL_FEEDBACK * pooled))
    prefill_var = np.maximum(prefill_var - prefill_s * prefill_s * (1.0 - some), 0.0)
    return _Pace(
        decode_s=decode_s, decode_var=decode_var + 1e-18, some=some, prefill_s=prefill_s, prefill_var=prefill_var
    )


def _above_itl(pace: _Pace, c_s: float, threshold_s: float) -> Array:
    """P(ITL > threshold); no step is shorter than c."""
    left_s, over_s = threshold_s - c_s, pace.decode_s - (c_s - 1e-9)
    quiet = _above_gamma(left_s, over_s, pace.decode_var)
    busy = _above_lognormal(left_s, over_s + pace.prefill_s, pace.decode_var + pace.prefill_var)
    missed: Array = quiet + pace.some * (busy - quiet)
    return missed


def _above_e2e(
    terms: Terms, start: _Start, pace: _Pace, threshold_s: float, *, steps: Array, steps_var: Array
) -> Array:
    """P(whole time > threshold) by rate and number of steps; ``steps_var``: of those that each one stands for."""
    itl_s = pace.decode_s + pace.some * pace.prefill_s
    itl_var = pace.decode_var + pace.some * (pace.prefill_var + (1.0 - pace.some) * pace.prefill_s * pace.prefill_s)
    prompt_var = start.token_s * start.token_s * (terms.prompt_sq - terms.prompt**2)
    mean_s = start.wait_s + start.token_s * terms.prompt + steps * itl_s
    variance = start.wait_var + prompt_var + steps * steps * itl_var + itl_s * itl_s * steps_var
    return _above_gamma(threshold_s, mean_s, variance)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """Before a request's first token; arrays of shape (rates, 1): the time for others and for whole steps (mean and
    variance), its own prefill per prompt token, and where prompts come faster than they are prefilled.
    """

    wait_s: Array
    wait_var: Array
    token_s: Array
    unstable: NDArray[np.bool_]


def _start(terms: Terms, now: _Steady) -> _Start:
    room = np.maximum(terms.batch_tokens - now.batch, 1.0)
    token_s = terms.step.a_s + now.found_s / room  # a prompt that fills steps pays for the decoding in them
    busy = now.rps * token_s * terms.prompt
    unstable = busy > 0.999
    busy = np.minimum(busy, 0.999)
    share = terms.pooled + (1.0 - terms.pooled) * _FLEET_WAIT
    queue_s = now.rps * token_s * token_s * (share * terms.prompt_sq / 2.0) / (1.0 - busy)
    # Prompts that arrive while the step in progress lasts are prefilled together: each waits for all.
    together_s = now.rps * now.step_s * (2.0 * share * terms.step.a_s)
    wait_s = _STEPS_TO_FIRST * now.found_s + queue_s + together_s * terms.prompt
    wait_var = now.found_s * now.found_s / 4.0 + together_s * (terms.step.a_s * terms.prompt_sq)
    wait_var += _QUEUE_SPREAD * queue_s * queue_s * (2.0 / (busy + 1e-12) - 1.0)
    return _Start(wait_s=wait_s, wait_var=wait_var, token_s=token_s, unstable=unstable)


def _above_patience(terms: Terms, now: _Steady, patience_s: Array) -> Array:
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


def miss_shares(terms: Terms, lengths: Lengths, slo: Slo, rps: Array) -> Array:
    """Shares of requests that miss for ITL (and whole time), TTFT (and queue), slots; shape (3, rates).

    ``rps``: rates of shape (rates, 1), below saturation.
    """
    now = _steady(terms, rps)
    start = _start(terms, now)
    missed = np.zeros((3, len(rps)))
    own_s = start.token_s * terms.prompt
    left_s = np.full_like(own_s, _PATIENCE_S)
    if slo.itl_s is not None:
        outputs, _ = lengths.outputs(_COARSE)
        pace = _pace(terms, now, np.maximum(outputs - 1.0, 1.0))
        # A request of one token has no ITL.
        missed[0] = _above_itl(pace, terms.step.c_s, slo.itl_s) @ (_COARSE.weights * (outputs >= 1.5))
    if slo.e2e_s is not None:
        outputs, outputs_var = lengths.outputs(_FINE)
        steps = np.maximum(outputs - 1.0, 1.0)
        pace = _pace(terms, now, steps)
        missed[0] += _above_e2e(terms, start, pace, slo.e2e_s, steps=steps, steps_var=outputs_var) @ _FINE.weights
        left_s = np.minimum(left_s, slo.e2e_s - start.wait_s - own_s - terms.output * now.step_s)
    if slo.ttft_s is not None:
        prompts, prompts_var = lengths.prompts(_FINE)
        mean_s = start.wait_s + start.token_s * prompts
        variance = start.wait_var + start.token_s * start.token_s * prompts_var
        missed[1] = _above_gamma(slo.ttft_s, mean_s, variance) @ _FINE.weights
        left_s = np.minimum(left_s, slo.ttft_s - start.wait_s - own_s)
    if slo.queue_s is not None:
        missed[1] += _above_gamma(slo.queue_s, start.wait_s, start.wait_var)[:, 0]
        left_s = np.minimum(left_s, slo.queue_s - start.wait_s)
    missed[1][start.unstable[:, 0]] = 1.0
    if math.isfinite(terms.slots):
        missed[2] = _above_patience(terms, now, np.maximum(left_s, 0.0))[:, 0]
    return missed
