"""B60 against hand-worked cases, an exact dynamic program and a linear program."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from loadtests.bounds.layers import b60, block_needs, layered_cost


def exact(needs: list[int], spans: list[float], boot_s: float) -> float:
    """Over every fleet of 0 to the largest need, block after block; those of the first need are there for free."""
    sizes = range(max(needs) + 1)
    value = {n: n * spans[0] + boot_s * (n - needs[0]) if n >= needs[0] else np.inf for n in sizes}
    for need, span in zip(needs[1:], spans[1:], strict=True):
        value = {
            n: n * span + min(value[m] + boot_s * max(0, n - m) for m in sizes) if n >= need else np.inf for n in sizes
        }
    return float(min(value.values()))


def by_linear_program(needs: list[int], spans: list[float], boot_s: float) -> float:
    """Replicas x_j >= needs[j] and starts u_j >= x_j - x_(j-1), fractions allowed; x_(-1) is the first need."""
    blocks = len(needs)
    grows: NDArray[np.float64] = np.zeros((blocks, 2 * blocks))
    for j in range(blocks):
        grows[j, j], grows[j, blocks + j] = 1, -1
        if j:
            grows[j, j - 1] = -1
    found = linprog(
        c=[*spans, *([boot_s] * blocks)],
        A_ub=grows,
        b_ub=[needs[0], *([0] * (blocks - 1))],
        bounds=[(need, None) for need in needs] + [(0, None)] * blocks,
    )
    return float(found.fun)


@pytest.mark.parametrize(
    ("needs", "boot_s", "seconds"),
    [
        # All minutes need 3, and 3 are there: 3 x 3 x 60.
        pytest.param([3, 3, 3], 60, 540, id="constant"),
        # 60 + 120 + 60, and one start of 45 s for the second replica.
        pytest.param([1, 2, 1], 45, 285, id="a start"),
        # 120 + 60 + 120, and one minute between: keeping costs 60 s, starting again 300 s.
        pytest.param([2, 1, 2], 300, 360, id="kept over a short gap"),
        # The same gap with a boot of 20 s: started again.
        pytest.param([2, 1, 2], 20, 320, id="started again over a long gap"),
        # Two layers of different gaps, boot 100 s: the third is away one minute (kept, 60 s), the second never;
        # 180 + 120 + 180 + 60.
        pytest.param([3, 2, 3], 100, 540, id="only the upper layer has a gap"),
        # 60 + 300 + 60 and four starts of 10 s.
        pytest.param([1, 5, 1], 10, 460, id="each of four is started"),
        pytest.param([4], 300, 240, id="one minute"),
    ],
)
def test_worked_by_hand(needs: list[int], boot_s: float, seconds: float) -> None:
    assert layered_cost(np.array(needs), np.full(len(needs), 60.0), boot_s=boot_s) == seconds


@pytest.mark.parametrize("seed", range(400))
def test_equals_an_exact_dynamic_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    blocks = int(rng.integers(1, 25))
    needs = rng.integers(0, 7, blocks)
    spans = rng.choice([10.0, 60.0, 90.0], blocks)
    boot_s = float(rng.choice([0, 1, 30, 60, 100, 300, 1000]))

    cost = layered_cost(needs, spans, boot_s=boot_s)

    assert cost == pytest.approx(exact(needs.tolist(), spans.tolist(), boot_s), abs=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_equals_the_linear_program_on_the_same_needs(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    needs = rng.integers(1, 9, int(rng.integers(2, 40)))
    spans, boot_s = np.full(len(needs), 60.0), float(rng.integers(0, 600))

    cost = layered_cost(needs, spans, boot_s=boot_s)

    assert cost == pytest.approx(by_linear_program(needs.tolist(), spans.tolist(), boot_s), rel=1e-9)


@pytest.mark.parametrize(
    ("counts", "capacity_rps", "needs", "spans"),
    [
        # 600 requests in 60 s are 10/s: five replicas of 2/s, exactly.
        pytest.param([10] * 60, 2.0, [5], [60], id="exactly full"),
        pytest.param([10] * 59 + [11], 2.0, [6], [60], id="one request more"),
        pytest.param([0] * 60, 2.0, [1], [60], id="idle keeps one"),
        # The mean counts, not the seconds: 120 in the first second of 60 are 2/s.
        pytest.param([120] + [0] * 59 + [4] * 30, 2.0, [1, 2], [60, 30], id="a burst, and a short last block"),
    ],
)
def test_needs_of_minutes(counts: list[int], capacity_rps: float, needs: list[int], spans: list[float]) -> None:
    found, lengths = block_needs(np.array(counts), capacity_rps=capacity_rps)
    assert (found.tolist(), lengths.tolist()) == (needs, spans)


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=400),
    st.integers(0, 600),
    st.floats(0.5, 20),
)
def test_between_the_needs_and_the_static_peak(counts: list[int], boot_s: int, capacity_rps: float) -> None:
    found = b60(np.array(counts), capacity_rps=capacity_rps, boot_s=boot_s)
    needs, spans = block_needs(np.array(counts), capacity_rps=capacity_rps)

    least = float(needs @ spans) / 3600
    assert least - 1e-9 <= found.replica_hours
    # Holding the peak from the begin on costs no boot beyond those started once.
    assert found.replica_hours <= (needs.max() * len(counts) + boot_s * (needs.max() - needs[0])) / 3600 + 1e-9


def test_a_longer_boot_never_makes_it_cheaper() -> None:
    counts = np.random.default_rng(3).poisson(30, 3600) * (np.arange(3600) % 900 < 450)
    hours = [b60(counts, capacity_rps=4.0, boot_s=boot).replica_hours for boot in (0, 30, 60, 300, 900)]
    assert hours == sorted(hours)
    assert hours[0] < hours[-1]
