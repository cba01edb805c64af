"""Arrivals: their rates, their irregularity, their lengths, and that a seed says it all."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loadtests.arrivals import Arrivals, from_digest, from_profile
from loadtests.digest import Digest, shipped
from loadtests.lengths import LengthQuantiles, constant_length, lognormal_lengths, parse_lengths
from loadtests.rates import RateProfile, steps


def formula(profile: RateProfile, *, dispersion: float = 1.0, seed: int = 1) -> Arrivals:
    return from_profile(
        profile,
        prompts=constant_length(10),
        outputs=constant_length(5),
        dispersion=dispersion,
        seed=seed,
        label="test",
    )


def digest_of(*counts: int, dispersion: float = 1.0) -> Digest:
    return Digest(
        name="made",
        source="",
        licence="",
        note="",
        interval_s=10.0,
        dispersion=dispersion,
        prompt_tokens=LengthQuantiles((0.0, 0.5, 1.0), (10.0, 100.0, 1000.0)),
        output_tokens=constant_length(40),
        arrivals=counts,
    )


def squeezed(digest: Digest, *, requests: int, duration_s: float, seed: int = 1) -> Arrivals:
    return from_digest(
        digest,
        from_s=0.0,
        until_s=digest.duration_s,
        duration_s=duration_s,
        requests=requests,
        prompt_scale=0.5,
        output_scale=0.1,
        seed=seed,
    )


def counts_of(arrivals: Arrivals, width_s: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    edges = np.arange(0, arrivals.duration_s + width_s / 2, width_s)
    return np.histogram(arrivals.at_s, edges)[0]


def test_each_stretch_has_its_rate() -> None:
    low, high = counts_of(formula(steps((5, 2000), (20, 2000))), 2000.0)
    assert low == pytest.approx(10_000, rel=0.03)
    assert high == pytest.approx(40_000, rel=0.03)


@pytest.mark.parametrize("dispersion", [0.5, 1.0, 4.0])
def test_counts_disperse_as_asked(dispersion: float) -> None:
    """Over windows much longer than a gap, variance over mean is the index of dispersion."""
    counts = counts_of(formula(steps((20, 10_000)), dispersion=dispersion), 5.0)
    assert counts.var() / counts.mean() == pytest.approx(dispersion, rel=0.15)


def test_first_arrival_is_no_different_from_the_others() -> None:
    """A stationary process: the mean of the count over [0, t) is rate times t from the very begin."""
    firsts = [len(formula(steps((1, 2.0)), dispersion=4.0, seed=seed)) for seed in range(4000)]
    assert np.mean(firsts) == pytest.approx(2.0, rel=0.08)


def test_nothing_at_rate_zero() -> None:
    arrivals = formula(steps((0, 50), (10, 50)))
    assert len(arrivals) > 0
    assert arrivals.at_s.min() >= 50
    assert len(formula(steps((0, 50)))) == 0


def test_seed_says_it_all() -> None:
    first, again, other = (formula(steps((5, 60)), seed=seed) for seed in (3, 3, 4))
    assert first.at_s.tolist() == again.at_s.tolist()
    assert first.at_s.tolist() != other.at_s.tolist()


def test_digest_keeps_its_counts_when_nothing_is_thinned() -> None:
    counts = (3, 0, 40, 7)
    arrivals = squeezed(digest_of(*counts), requests=50, duration_s=40.0)
    assert counts_of(arrivals, 10.0).tolist() == list(counts)


def test_digest_is_squeezed_in_time() -> None:
    arrivals = squeezed(digest_of(100, 300), requests=40, duration_s=4.0)
    assert counts_of(arrivals, 2.0).tolist() == [10, 30]
    assert arrivals.label == "made, 5 times as fast, 10.000% of its requests"


def test_lengths_of_a_digest_are_scaled() -> None:
    arrivals = squeezed(digest_of(20_000), requests=20_000, duration_s=10.0)
    assert np.median(arrivals.prompt_tokens) == pytest.approx(50, rel=0.05)
    assert arrivals.prompt_tokens.min() >= 5
    assert arrivals.prompt_tokens.max() <= 500
    assert set(arrivals.output_tokens.tolist()) == {4}


def test_irregular_digest_bunches_arrivals_inside_an_interval() -> None:
    def roughness(dispersion: float) -> float:
        counts = counts_of(
            squeezed(digest_of(*[200] * 50, dispersion=dispersion), requests=10_000, duration_s=500.0), 1.0
        )
        return float(counts.var() / counts.mean())

    # Conditioned on each interval's count a Poisson stream of ten seconds keeps 9/10 of its dispersion.
    assert roughness(1.0) == pytest.approx(0.9, rel=0.15)
    assert roughness(6.0) > 3 * roughness(1.0)


@given(
    counts=st.lists(st.integers(0, 200), min_size=1, max_size=20).filter(any),
    requests=st.integers(0, 500),
    dispersion=st.floats(0.1, 20),
    seed=st.integers(0, 2**32),
)
@example(counts=[1], requests=52, dispersion=10.0, seed=107)
@example(counts=[156, 3, 104], requests=284, dispersion=19.5, seed=270656)
def test_promises_of_a_digest_plan(counts: list[int], requests: int, dispersion: float, seed: int) -> None:
    """Exactly as many requests as asked for, in order, inside the time, each interval within one of its share."""
    digest = digest_of(*counts, dispersion=dispersion)
    arrivals = squeezed(digest, requests=requests, duration_s=60.0, seed=seed)
    assert len(arrivals) == requests
    assert (np.diff(arrivals.at_s) >= 0).all()
    assert requests == 0 or (arrivals.at_s.min() >= 0 and arrivals.at_s.max() <= 60.0)
    assert min([*arrivals.prompt_tokens.tolist(), *arrivals.output_tokens.tolist()], default=1) >= 1


@pytest.mark.parametrize(
    ("from_s", "until_s"),
    [
        pytest.param(0.0, 30.0, id="beyond the end"),
        pytest.param(10.0, 10.0, id="nothing"),
        pytest.param(0.0, 15.0, id="inside an interval"),
        pytest.param(-10.0, 10.0, id="before the begin"),
    ],
)
def test_stretch_outside_of_the_digest_is_refused(from_s: float, until_s: float) -> None:
    with pytest.raises(ValueError, match=r"need 0 <= from < until <= 20 s in multiples of 10 s"):
        digest_of(1, 2).arrivals_between(from_s, until_s)


def test_stretch_without_arrivals_is_refused() -> None:
    with pytest.raises(ValueError, match="no arrivals between 0 s and 20 s"):
        squeezed(digest_of(0, 0), requests=10, duration_s=5.0)


@pytest.mark.parametrize(
    ("duration_s", "requests", "says"),
    [
        pytest.param(0.0, 10, "above 0 s", id="no time"),
        pytest.param(float("inf"), 10, "finite", id="for ever"),
        pytest.param(10.0, -1, "at least 0", id="fewer than none"),
    ],
)
def test_impossible_plan_is_refused(duration_s: float, requests: int, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        squeezed(digest_of(1, 2), requests=requests, duration_s=duration_s)


def test_peak_rate_is_that_of_the_busiest_window() -> None:
    arrivals = dataclasses.replace(formula(steps((1, 10))), at_s=np.array([0.0, 4.0, 4.5, 5.9, 9.0]))
    assert arrivals.peak_rps(2.0) == 1.5
    assert dataclasses.replace(arrivals, at_s=np.array([])).peak_rps(2.0) == 0.0


def test_lognormal_lengths_have_their_mean_and_variation() -> None:
    drawn = lognormal_lengths(mean=200, cv=0.5).draw(np.random.default_rng(1), 50_000)
    assert drawn.mean() == pytest.approx(200, rel=0.02)
    assert drawn.std() / drawn.mean() == pytest.approx(0.5, rel=0.05)
    assert lognormal_lengths(mean=200, cv=0).draw(np.random.default_rng(1), 3).tolist() == [200] * 3


def test_quantiles_of_a_sample_reproduce_it() -> None:
    sample = np.arange(1, 1001)
    lengths = LengthQuantiles.of_sample(sample)
    assert lengths.mean() == pytest.approx(sample.mean(), rel=0.01)
    assert (lengths.tokens[0], lengths.tokens[-1]) == (1, 1000)


@pytest.mark.parametrize(
    "text", ["", "many", "0", "100~-1", "100~x"], ids=["empty", "word", "zero", "negative variation", "no variation"]
)
def test_bad_lengths_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"a length is MEAN or MEAN~CV"):
        parse_lengths(text)


@pytest.mark.parametrize(
    ("probabilities", "tokens", "says"),
    [
        pytest.param((0.0, 1.0), (5.0,), "as many", id="counts differ"),
        pytest.param((0.1, 1.0), (5.0, 6.0), "run from 0 to 1", id="does not begin at 0"),
        pytest.param((0.0, 0.5, 0.5, 1.0), (1.0, 2.0, 3.0, 4.0), "ascend", id="twice the same"),
        pytest.param((0.0, 1.0), (5.0, 4.0), "never descend", id="descends"),
        pytest.param((0.0, 1.0), (0.0, 4.0), "at least 1", id="no token"),
    ],
)
def test_impossible_quantiles_are_refused(
    probabilities: tuple[float, ...], tokens: tuple[float, ...], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        LengthQuantiles(probabilities, tokens)


def test_shipped_traces_can_be_offered() -> None:
    for name in ("azure2023_conv", "azure2023_code", "azure2024_conv_week"):
        assert len(squeezed(shipped(name), requests=300, duration_s=60.0)) == 300
