"""Loads that were driven -> the coefficients of the engine that served them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from adapters.simulation.step_times import EngineShape, StepTimes
from autoscaler.domain.capacity import StepTime
from autoscaler.domain.reading import EngineReading, Unknown
from loadtests.calibration.coefficients import Coefficients, Overhead
from loadtests.calibration.driving import Driven
from loadtests.calibration.learning import windows
from loadtests.calibration.replaying import replay, simulated_pages
from loadtests.records import Outcome
from predictors.step_time import Fit, Misfit, fit_step_time

Floats = NDArray[np.float64]

# Long enough that a window holds hundreds of tokens, short enough that the batch stays about the same within it.
WINDOW_S = 2.0
_LEAST_REQUESTS = 20
_PREFILL, _ITL = 3, 5  # columns of a window
_CORRECTIONS = 4
_LEAST_PART = 0.1  # of the step time that a correction leaves
_LEAST_REST = 0.1  # of a window's ITL that is left without its prefill, for the window to count
_ROUNDS = 30
_LEAST_RESIDUAL_S = 1e-5


class CalibrationError(ValueError):
    """The loads don't tell the coefficients; the message says why and what would."""


def fitted(loads: Sequence[Sequence[Driven]], *, max_num_seqs: int, chunk_tokens: int) -> Coefficients:
    """The engine's coefficients, from the turns of these loads alone.

    ``max_num_seqs`` and ``chunk_tokens`` (vLLM's ``max_num_seqs`` and ``max_num_batched_tokens``) are on no page.
    Raises CalibrationError.
    """
    measured = _windows([[turn.readings for turn in turns] for turns in loads])
    driven = [turn for turns in loads for turn in turns]
    shape = EngineShape(kv_tokens=_kv_tokens(driven), chunk_tokens=chunk_tokens, max_num_seqs=max_num_seqs)
    fit = _known(measured[:, :4], measured[:, _ITL])
    step = fit.step
    for _ in range(_CORRECTIONS):
        # Windows tell a prompt's prefill from its decoding only as far as requests differ; first tokens tell outright.
        _, longer_a_s = _overhead(driven, step=step, shape=shape)
        a_s = max(0.0, step.a_s + longer_a_s)
        step = _corrected(replace(step, a_s=a_s), loads, measured=measured, shape=shape)
    overhead, _ = _overhead(driven, step=step, shape=shape)
    return Coefficients(step=step, windows=len(measured), error=fit.error, shape=shape, overhead=overhead)


def _corrected(step: StepTime, loads: Sequence[Sequence[Driven]], *, measured: Floats, shape: EngineShape) -> StepTime:
    """``step`` less the bias of the fit, as it shows on pages of a simulated engine of that very step time.

    A window's ITL is the mean over its tokens and its batch that over time, so where the batch changes within a window,
    more tokens come out of the larger ones, and the fit takes an empty step for longer than it is. (The bootstrap's
    correction, Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, section 10.6; repeated, it is indirect
    inference, Gourieroux, Monfort and Renault, *Journal of Applied Econometrics*, 1993.)
    """
    seen = _without_prefill(measured, step.a_s)
    pages = [[simulated_pages(turn, times=_times(step), shape=shape) for turn in turns] for turns in loads]
    told = _without_prefill(_windows(pages), step.a_s)
    return StepTime(
        c_s=max(_LEAST_PART * step.c_s, step.c_s + seen.c_s - told.c_s),
        d_s=max(0.0, step.d_s + seen.d_s - told.d_s),
        e_s=max(0.0, step.e_s + seen.e_s - told.e_s),
        a_s=step.a_s,
    )


def _windows(pages: Sequence[Sequence[Sequence[EngineReading]]]) -> Floats:
    """The windows of all loads, each load's request lengths counted by itself."""
    return np.concatenate([windows(turns, window_s=WINDOW_S) for turns in pages])


def _without_prefill(measured: Floats, a_s: float) -> StepTime:
    """The controller's fit of c, d and e to what the windows' steps took apart from their prefill."""
    loads, itl_s = measured[:, :4].copy(), measured[:, _ITL] - a_s * measured[:, _PREFILL]
    kept = itl_s > _LEAST_REST * measured[:, _ITL]
    loads[:, _PREFILL] = 0.0
    return _known(loads[kept], itl_s[kept]).step


def _known(loads: Floats, itl_s: Floats) -> Fit:
    fit = fit_step_time(loads, itl_s, np.ones(len(loads)))
    if isinstance(fit, Misfit):
        raise CalibrationError(
            f"no step time could be fitted to {len(loads)} windows: {fit}; use longer turns, of a load that is light "
            "and of one that keeps most of the engine's sequences busy"
        )
    return fit


def _kv_tokens(driven: Sequence[Driven]) -> int:
    readings = [reading for turn in driven for reading in turn.readings]
    if not readings:
        raise CalibrationError("the engine's page could not be read at all")
    capacity = readings[-1].kv_capacity_tokens
    if isinstance(capacity, Unknown):
        raise CalibrationError(f"the page does not tell what the KV cache holds: {capacity}")
    return int(capacity)


def _overhead(driven: Sequence[Driven], *, step: StepTime, shape: EngineShape) -> tuple[Overhead, float]:
    """What first tokens took longer than simulated: a line over running sequences and own prompt tokens, and its slope
    over the latter, in seconds a token, which is what the step time's prefill lacks.
    """
    rows, longer_s = [], []
    for turn in driven:
        simulated = replay(turn.arrivals, times=_times(step), shape=shape)
        for record in turn.records:
            if record.outcome is not Outcome.FINISHED or record.ttft_s is None or not simulated.finished[record.number]:
                continue
            rows.append((1.0, simulated.running[record.number], float(record.prompt_tokens)))
            longer_s.append(record.ttft_s - simulated.ttft_s[record.number])
    if len(rows) < _LEAST_REQUESTS:
        raise CalibrationError(f"{len(rows)} requests finished; at least {_LEAST_REQUESTS} are needed")
    fixed_s, per_running_s, per_prompt_token_s = _least_absolute(np.array(rows), np.array(longer_s)).tolist()
    return Overhead(fixed_s=fixed_s, per_running_s=per_running_s), per_prompt_token_s


def _times(step: StepTime) -> StepTimes:
    return StepTimes.of_seconds(c_s=step.c_s, d_s=step.d_s, e_s=step.e_s, a_s=step.a_s)


def _least_absolute(rows: Floats, values: Floats) -> Floats:
    """The coefficients of the least absolute deviations, which go by the median request and so bear outliers: least
    squares again and again, each row weighted by the inverse of its residual (Schlossmacher, *An iterative technique
    for absolute deviations curve fitting*, JASA 1973).
    """
    weights, terms = np.ones(len(rows)), np.zeros(rows.shape[1])
    for _ in range(_ROUNDS):
        root = np.sqrt(weights)
        terms = np.asarray(np.linalg.lstsq(rows * root[:, None], values * root, rcond=None)[0], dtype=np.float64)
        weights = 1.0 / np.maximum(np.abs(rows @ terms - values), _LEAST_RESIDUAL_S)
    return terms
