"""B_slo against exhaustive search, and its two sides against each other."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from loadtests.bounds.layers import b60
from loadtests.bounds.slo import MissCurve, b_slo

SOFT = MissCurve(np.array([0.0, 0.8, 1.0, 1.2, 1.5]), np.array([0.0, 0.002, 0.01, 0.02, 0.2]))
CLIFF = MissCurve(np.array([0.0, 1.0, 1.001, 9.0]), np.array([0.0, 0.001, 0.5, 1.0]))


def walk(seed: int, seconds: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Arrivals whose rate wanders between about 3 and 60 a second."""
    rng = np.random.default_rng(seed)
    rate = 15 * np.exp(np.clip(np.cumsum(rng.standard_normal(seconds)) * 0.02, -1.5, 1.5))
    return rng.poisson(rate).astype(np.int64)


@pytest.mark.parametrize("curve", [pytest.param(SOFT, id="soft"), pytest.param(CLIFF, id="cliff")])
@pytest.mark.parametrize("boot_s", [60, 300])
@pytest.mark.parametrize("seed", range(3))
def test_both_sides_agree(curve: MissCurve, boot_s: int, seed: int) -> None:
    found = b_slo(walk(seed, 86_400), curve, boot_s=boot_s, max_replicas=100)
    assert found.replica_hours <= found.found_hours * (1 + 1e-9)
    assert found.found_hours <= found.replica_hours * 1.001
    assert found.missed_share <= 0.01


@pytest.mark.parametrize("seed", range(25))
def test_no_fleet_that_keeps_the_promise_is_cheaper(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = np.repeat(rng.integers(0, 5, 6), 60).astype(np.int64)
    boot_s, allowed = float(rng.integers(0, 200)), 0.05
    per_block = counts.reshape(6, 60).sum(axis=1)

    costs = []
    for fleet in product(range(1, 5), repeat=6):
        sizes = np.array(fleet)
        missed = float(SOFT.missed(per_block / 60 / sizes) @ per_block)
        if missed <= allowed * per_block.sum():
            costs.append(60 * sizes.sum() + boot_s * sum(max(0, b - a) for a, b in pairwise(fleet)))
    if not costs:
        with pytest.raises(ValueError, match="4 replicas miss"):
            b_slo(counts, SOFT, boot_s=boot_s, max_replicas=4, allowed=allowed)
        return
    found = b_slo(counts, SOFT, boot_s=boot_s, max_replicas=4, allowed=allowed)

    assert found.replica_hours * 3600 <= min(costs) + 1e-6
    assert found.found_hours * 3600 >= min(costs) - 1e-6


def test_of_hard_capacity_and_no_misses_it_is_the_layers() -> None:
    # Nothing is missed up to one request a second, all beyond: what the mean of each minute needs.
    hard = MissCurve(np.array([1.0 + 1e-9]), np.array([0.0]))
    counts = walk(5, 7200)
    # It begins at its height, so that both have the same fleet for free.
    counts[:60] = counts.max()
    found = b_slo(counts, hard, boot_s=120, max_replicas=100, allowed=0.0)
    layers = b60(counts, capacity_rps=1.0, boot_s=120)
    assert found.found_hours == pytest.approx(layers.replica_hours, rel=1e-9)
    assert found.replica_hours == pytest.approx(layers.replica_hours, rel=1e-6)


def test_allowing_more_misses_costs_less() -> None:
    counts = walk(7, 20_000)
    hours = [
        b_slo(counts, SOFT, boot_s=60, max_replicas=90, allowed=share).replica_hours for share in (0.005, 0.01, 0.05)
    ]
    assert hours[0] > hours[1] > hours[2]


@pytest.mark.parametrize(
    ("loads", "shares", "message"),
    [
        pytest.param([1.0, 1.0], [0.0, 0.1], "ascend", id="the same load twice"),
        pytest.param([1.0, 2.0], [0.1, 0.0], "must not fall", id="fewer misses at more load"),
        pytest.param([1.0], [1.5], "lie in", id="more than all"),
        pytest.param([1.0, 2.0], [0.1], "as many shares", id="a share lacks"),
    ],
)
def test_impossible_curves_are_refused(loads: list[float], shares: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MissCurve(np.array(loads), np.array(shares))


def test_a_curve_between_and_beyond_its_points() -> None:
    # Half-way between 0.01 at 1.0 and 0.02 at 1.2; as at the first point below it; everything beyond the last.
    assert SOFT.missed(np.array([1.1, 1.5, 1.51])).tolist() == pytest.approx([0.015, 0.2, 1.0])
    assert CLIFF.missed(np.array([0.0])).tolist() == [0.0]
