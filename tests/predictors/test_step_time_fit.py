"""The online fit of the step time: it finds what made the windows, and refuses what no engine could be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from autoscaler.domain.capacity import StepTime
from predictors.profiles import find_profile
from predictors.step_time import (
    LEAST_WINDOWS,
    TYPICAL,
    Fit,
    Misfit,
    fit_step_time,
    in_proportion,
    measured_scale,
    predicted_s,
    scaled,
)

Array = NDArray[np.float64]

H100 = find_profile(gpu="h100", model="Llama-3.1-8B", tp=1).step_time
L40S = find_profile(gpu="l40s", model="Llama-3.1-8B", tp=1).step_time
TINY_ON_CPU = StepTime(c_s=0.010, d_s=1e-3, e_s=1e-6, a_s=5e-5)


def steady_windows(
    step: StepTime, *, count: int, noise: float, one_shape: bool, seed: int = 1, most: float = 0.85
) -> tuple[Array, Array]:
    """Windows of an engine in steady state at random loads: rows of (1, B, K, q), and ITLs with relative noise."""
    rng = np.random.default_rng(seed)
    prompt = np.full(count, 1155.0) if one_shape else rng.uniform(300, 3000, count)
    output = np.full(count, 211.0) if one_shape else rng.uniform(50, 500, count)
    work_s = step.a_s * prompt + output * (step.d_s + step.e_s * (prompt + output / 2))
    rps = rng.uniform(0.05, most, count) / work_s
    itl_s = step.c_s / (1 - rps * work_s)
    batch = rps * output * itl_s
    measured_s = itl_s * np.exp(rng.normal(0, noise, count))
    loads = np.column_stack([np.ones(count), batch, batch * (prompt + output / 2), rps * prompt * measured_s])
    return loads, measured_s


def fitted(loads: Array, itl_s: Array) -> Fit:
    fit = fit_step_time(loads, itl_s, np.ones(len(itl_s)))
    assert isinstance(fit, Fit), fit
    return fit


def work_s(step: StepTime, prompt: float = 1155.0, output: float = 211.0) -> float:
    return step.a_s * prompt + output * (step.d_s + step.e_s * (prompt + output / 2))


ENGINES = [
    pytest.param(H100, id="8B on H100"),
    pytest.param(L40S, id="8B on L40S"),
    pytest.param(TINY_ON_CPU, id="tiny on CPU"),
]


@pytest.mark.parametrize("step", ENGINES)
def test_terms_are_found_again_from_clean_windows_of_many_shapes(step: StepTime) -> None:
    fit = fitted(*steady_windows(step, count=48, noise=0.0, one_shape=False))
    assert fit.error < 0.01
    for name in ("c_s", "d_s", "e_s", "a_s"):
        assert getattr(fit.step, name) == pytest.approx(getattr(step, name), rel=0.05), name


@pytest.mark.parametrize("step", ENGINES)
@pytest.mark.parametrize("one_shape", [pytest.param(True, id="one shape"), pytest.param(False, id="many shapes")])
@pytest.mark.parametrize("noise", [0.03, 0.1])
def test_what_counts_is_found_in_noise(step: StepTime, noise: float, one_shape: bool) -> None:  # noqa: FBT001
    """The constant and the work of a request decide the capacity, however d, e and a share the slope."""
    fit = fitted(*steady_windows(step, count=48, noise=noise, one_shape=one_shape))
    assert fit.step.c_s == pytest.approx(step.c_s, rel=0.03 + noise)
    assert work_s(fit.step) == pytest.approx(work_s(step), rel=0.03 + 1.5 * noise)
    assert fit.error == pytest.approx(noise, rel=0.6)


def test_windows_of_one_shape_are_split_as_the_profile_says() -> None:
    loads, itl_s = steady_windows(L40S, count=32, noise=0.01, one_shape=True)
    rows = np.column_stack([loads, np.zeros(len(loads)), itl_s, np.zeros(len(loads))])
    half_as_fast = scaled(L40S, 0.5)
    split = in_proportion(fitted(loads, itl_s), half_as_fast, rows)
    for name in ("c_s", "d_s", "e_s", "a_s"):
        assert getattr(split, name) == pytest.approx(getattr(L40S, name), rel=0.05), name


def test_a_profile_that_contradicts_the_windows_does_not_split_them() -> None:
    loads, itl_s = steady_windows(TINY_ON_CPU, count=48, noise=0.0, one_shape=False)
    rows = np.column_stack([loads, np.zeros(len(loads)), itl_s, np.zeros(len(loads))])
    fit = fitted(loads, itl_s)
    assert in_proportion(fit, H100, rows) == fit.step


def test_a_window_of_compilation_hardly_moves_the_fit() -> None:
    loads, itl_s = steady_windows(L40S, count=32, noise=0.02, one_shape=True)
    clean = fitted(loads, itl_s)
    spoilt_s = itl_s.copy()
    spoilt_s[::10] *= 8
    spoilt = fitted(loads, spoilt_s)
    assert work_s(spoilt.step) == pytest.approx(work_s(clean.step), rel=0.15)
    assert spoilt.step.c_s == pytest.approx(clean.step.c_s, rel=0.15)


def test_recent_windows_weigh_more() -> None:
    old, old_s = steady_windows(L40S, count=24, noise=0.0, one_shape=True)
    new, new_s = steady_windows(scaled(L40S, 0.5), count=24, noise=0.0, one_shape=True)
    weights = np.concatenate([np.full(24, 2.0**-7), np.ones(24)])
    fit = fit_step_time(np.vstack([old, new]), np.concatenate([old_s, new_s]), weights)
    assert isinstance(fit, Fit)
    assert fit.step.c_s == pytest.approx(L40S.c_s / 2, rel=0.1)


def _rows(batch: Array) -> Array:
    return np.column_stack([np.ones(len(batch)), batch, batch * 1260.0, batch * 5.5])


BATCHES = np.linspace(2.0, 40.0, 20)


@pytest.mark.parametrize(
    ("loads", "itl_s", "why"),
    [
        pytest.param(_rows(BATCHES[: LEAST_WINDOWS - 1]), 0.02 + BATCHES[:7] / 1e3, Misfit.TOO_ALIKE, id="too few"),
        pytest.param(_rows(np.linspace(10, 19, 20)), np.linspace(0.03, 0.04, 20), Misfit.TOO_ALIKE, id="narrow"),
        pytest.param(_rows(np.zeros(0)), np.zeros(0), Misfit.TOO_ALIKE, id="none"),
        pytest.param(_rows(BATCHES), BATCHES * 1e-3, Misfit.NO_CONSTANT, id="an empty step takes no time"),
        pytest.param(
            _rows(BATCHES), 0.02 * np.where(np.arange(20) % 2, 1.0, 12.0), Misfit.FAR_OFF, id="nothing explains it"
        ),
        pytest.param(
            _rows(BATCHES),
            np.concatenate([np.linspace(0.030, 0.024, 18), [0.2, 0.2]]),
            Misfit.FLAT,
            id="ITL rises at the end of a range that the fit calls flat",
        ),
    ],
)
def test_a_fit_that_cannot_be_is_refused(loads: Array, itl_s: Array, why: Misfit) -> None:
    assert fit_step_time(loads, itl_s, np.ones(len(itl_s))) is why


def test_itl_that_falls_with_the_batch_gives_a_flat_step_never_a_negative_one() -> None:
    fit = fitted(_rows(BATCHES), np.linspace(0.030, 0.028, 20))
    assert fit.step.d_s == fit.step.e_s == fit.step.a_s == 0.0
    assert fit.step.c_s == pytest.approx(0.029, rel=0.02)


def test_the_profile_is_scaled_by_the_median_ratio() -> None:
    loads, itl_s = steady_windows(L40S, count=5, noise=0.0, one_shape=True)
    rows = np.column_stack([loads, np.zeros(5), 1.2 * itl_s, np.zeros(5)])
    rows[0, 5] *= 30
    assert measured_scale(L40S, rows) == pytest.approx(1.2, rel=0.02)
    assert measured_scale(L40S, rows[:2]) is None


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    count=st.integers(0, 64),
    spread=st.floats(0.0, 8.0),
    noise=st.floats(0.0, 3.0),
    scale=st.floats(1e-4, 100.0),
)
def test_any_windows_give_a_possible_step_or_a_reason(
    seed: int, count: int, spread: float, noise: float, scale: float
) -> None:
    rng = np.random.default_rng(seed)
    batch = np.exp(rng.uniform(0.0, spread, count))
    loads = np.column_stack([np.ones(count), batch, batch * rng.uniform(0, 1e5), batch * rng.uniform(0, 1e4)])
    itl_s = scale * np.exp(rng.normal(0, noise, count)) * (1 + batch * rng.uniform(0, 0.1))
    fit = fit_step_time(loads, itl_s, rng.uniform(0.01, 1.0, count))
    if isinstance(fit, Fit):
        assert fit.step.c_s > 0
        assert np.isfinite(predicted_s(fit.step, loads)).all()
        assert 0 <= fit.error <= 0.35
    else:
        assert fit in Misfit


def test_the_step_of_a_load_is_its_four_terms() -> None:
    # 0.022158 + 0.0000353 * 40 + 1.87206e-7 * 50,000 + 7.68123e-5 * 200
    assert predicted_s(L40S, np.array([[1.0, 40.0, 50_000.0, 200.0]]))[0] == pytest.approx(0.0482927, rel=1e-5)
    assert predicted_s(TYPICAL, np.array([[1.0, 0.0, 0.0, 0.0]]))[0] == 1.0
