"""What every workload promises: the same seed draws the same, cuts and factors keep the shape."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.simulation.requests import Requests
from loadtests.workloads.choosing import AnyWorkload, chosen_workload
from loadtests.workloads.recorded import RecordedRequests
from loadtests.workloads.within_bins import drawn_counts, flat_per_second, rate_per_second
from loadtests.workloads.workload import fitted_to_peak


def recorded(at_s: list[float]) -> RecordedRequests:
    ones = np.ones(len(at_s), dtype=np.int64)
    return RecordedRequests(
        name="own",
        about="a list",
        recorded=Requests(
            at_s=np.array(sorted(at_s)),
            prompt_tokens=ones * 10,
            output_tokens=ones * 5,
            cached_tokens=ones * 0,
            duration_s=600.0,
        ),
    )


WORKLOADS = {
    "requests": recorded(np.random.default_rng(5).uniform(0, 600, 3000).tolist()),
    "flat bins": chosen_workload("azure2023_conv").cut(0, 600),
    "long bins": chosen_workload("azure2024_conv_week").cut(0, 7200),
    "formula": chosen_workload("bursts:base=2,peak=12,every=30,length=5,for=600"),
}


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_a_seed_decides_everything(workload: AnyWorkload) -> None:
    thinned = workload.scaled(0.7)
    assert np.array_equal(thinned.counts(3).arrivals, thinned.counts(3).arrivals)
    assert np.array_equal(thinned.requests(3).at_s, thinned.requests(3).at_s)
    assert not np.array_equal(thinned.counts(3).arrivals, thinned.counts(4).arrivals)
    assert not np.array_equal(thinned.requests(3).at_s, thinned.requests(4).at_s)


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
@pytest.mark.parametrize("factor", [0.25, 1.0, 3.5])
def test_a_factor_multiplies_the_requests(workload: AnyWorkload, factor: float) -> None:
    expected = factor * np.mean([workload.counts(seed).arrivals.sum() for seed in range(5)])
    scaled = workload.scaled(factor)
    assert scaled.peak_rps() == pytest.approx(factor * workload.peak_rps())
    assert np.mean([scaled.counts(seed).arrivals.sum() for seed in range(5)]) == pytest.approx(expected, rel=0.1)
    assert np.mean([len(scaled.requests(seed)) for seed in range(5)]) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_what_is_drawn_lies_in_the_cut(workload: AnyWorkload) -> None:
    part = workload.cut(60, 300)
    assert part.duration_s == 240
    assert part.counts(1).duration_s == 240
    assert part.requests(1).duration_s == 240
    for wrong in [(-1, 5), (5, 5), (0, workload.duration_s + 1)]:
        with pytest.raises(ValueError, match="a cut needs 0 <= from < until"):
            workload.cut(*wrong)


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_the_fingerprint_tells_what_is_drawn(workload: AnyWorkload) -> None:
    assert workload.fingerprint == workload.cut(0, workload.duration_s).fingerprint
    assert workload.fingerprint != workload.scaled(1.1).fingerprint
    assert workload.fingerprint != workload.cut(0, 300).fingerprint


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_fitted_to_a_peak(workload: AnyWorkload) -> None:
    assert fitted_to_peak(workload, replicas=40, capacity_rps=2.5).peak_rps() == pytest.approx(100)


@pytest.mark.parametrize("factor", [0.0, -1.0, float("inf"), float("nan")])
def test_impossible_factors_are_refused(factor: float) -> None:
    with pytest.raises(ValueError, match="must be positive and finite"):
        WORKLOADS["formula"].scaled(factor)


def test_recorded_requests_are_replayed_as_they_came() -> None:
    own = recorded([0.5, 0.6, 61.0])
    assert own.requests(1).at_s.tolist() == [0.5, 0.6, 61.0]
    assert own.counts(1).arrivals[[0, 61]].tolist() == [2, 1]


@settings(max_examples=40, deadline=None)
@given(
    rates=st.lists(st.floats(0, 50), min_size=2, max_size=8).filter(lambda rates: sum(rates) > 0.1),
    bin_s=st.integers(61, 900),
    seed=st.integers(0, 2**32 - 1),
)
def test_inside_bins_the_total_is_kept_and_empty_bins_stay_empty(rates: list[float], bin_s: int, seed: int) -> None:
    edges = np.arange(len(rates) + 1.0) * bin_s
    drawn = rate_per_second(
        edges, np.array(rates), minute_noise=np.full(len(rates), 0.1), rng=np.random.default_rng(seed)
    )
    assert len(drawn) == edges[-1]
    assert drawn.sum() == pytest.approx(sum(rates) * bin_s)
    by_bin = drawn.reshape(len(rates), bin_s)
    assert (by_bin[np.array(rates) == 0] == 0).all()
    assert (drawn >= 0).all()


def test_a_steady_series_is_steady_inside_its_bins() -> None:
    drawn = rate_per_second(
        np.arange(6.0) * 600, np.full(5, 7.0), minute_noise=np.zeros(5), rng=np.random.default_rng(0)
    )
    assert drawn == pytest.approx(np.full(3000, 7.0))


def test_the_bridge_passes_through_the_middles_and_moves_as_much_as_the_series_does() -> None:
    rng = np.random.default_rng(2)
    logs = np.cumsum(rng.normal(0, 0.2, 400))
    edges = np.arange(401.0) * 600
    drawn = rate_per_second(edges, np.exp(logs), minute_noise=np.zeros(400), rng=rng)
    assert np.std(np.diff(np.log(drawn[300::600]) - logs)) < 0.02
    # 0.7 of the series' deviation in a second, which is that of ten minutes over the root of 600.
    assert np.std(np.diff(np.log(drawn))) == pytest.approx(0.7 * np.std(np.diff(logs)) / np.sqrt(600), rel=0.1)


@pytest.mark.parametrize("dispersion", [1.0, 2.5, 12.0])
def test_counts_have_the_dispersion_asked_for(dispersion: float) -> None:
    drawn = drawn_counts(np.full(100_000, 8.0), dispersion=dispersion, rng=np.random.default_rng(1))
    assert drawn.mean() == pytest.approx(8, rel=0.03)
    assert drawn.var() / drawn.mean() == pytest.approx(dispersion, rel=0.05)


def test_a_bin_that_ends_inside_a_second_is_shared_out() -> None:
    assert flat_per_second(np.array([0.0, 1.5, 3.0]), np.array([2.0, 4.0])) == pytest.approx([2, 3, 4])


@settings(max_examples=20, deadline=None)
@given(cv=st.sampled_from([0.5, 1.0, 2.0]), seed=st.integers(0, 1000))
def test_gaps_between_requests_vary_as_asked(cv: float, seed: int) -> None:
    steady = chosen_workload("steps:40x600")
    assert not isinstance(steady, RecordedRequests)
    gaps = np.diff(dataclasses.replace(steady, cv=cv).requests(seed).at_s)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.1)
