"""The linear program against hand-worked cases and a mixed-integer program written in another way."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from loadtests.bounds.linear import NoSolutionError, linear_bound


def second_by_second(
    counts: list[int], *, capacity_rps: float, boot_s: float, patience_s: int, dropped: float, whole: bool
) -> float:
    """Least replica-seconds of a fluid fleet in steps of a second, the replicas ``whole`` or not.

    What arrives in step i is served in steps i to i + patience, in step j at most capacity times replicas; variables
    are replicas, starts, and requests of step i served in step j.
    """
    steps = len(counts)
    pairs = [(i, j) for i in range(steps) for j in range(i, min(steps, i + patience_s + 1))]
    size = 2 * steps + len(pairs)
    rows, low, high = [], [], []

    def constrain(terms: dict[int, float], at_least: float, at_most: float) -> None:
        row = np.zeros(size)
        for place, factor in terms.items():
            row[place] += factor
        rows.append(row)
        low.append(at_least)
        high.append(at_most)

    for j in range(1, steps):
        constrain({steps + j: 1, j: -1, j - 1: 1}, 0, np.inf)
    for j in range(steps):
        served = {2 * steps + k: 1.0 for k, (_, at) in enumerate(pairs) if at == j}
        constrain(served | {j: -capacity_rps}, -np.inf, 0)
    for i in range(steps):
        served = {2 * steps + k: 1.0 for k, (came, _) in enumerate(pairs) if came == i}
        # What could still be served after the end need not be served here.
        due = counts[i] if i + patience_s < steps else 0.0
        constrain(served, 0.0 if dropped else due, counts[i])
    due = sum(counts[: max(0, steps - patience_s)])
    on_time = {2 * steps + k: 1.0 for k, (came, _) in enumerate(pairs) if came + patience_s < steps}
    constrain(on_time, due - dropped * sum(counts), np.inf)
    found = milp(
        c=np.concatenate([np.ones(steps), np.full(steps, boot_s), np.zeros(len(pairs))]),
        constraints=LinearConstraint(np.array(rows), np.array(low), np.array(high)),
        bounds=Bounds(np.concatenate([np.ones(steps), np.zeros(size - steps)]), np.inf),
        integrality=np.concatenate([np.full(steps, int(whole)), np.zeros(size - steps)]),
    )
    assert found.success, found.message
    return float(found.fun)


@pytest.mark.parametrize("dropped", [0.0, 0.05])
@pytest.mark.parametrize("seed", range(20))
def test_never_above_the_mixed_integer_optimum(seed: int, dropped: float) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.poisson(4 * np.exp(rng.standard_normal(24) * 0.7)).tolist()
    boot_s = float(rng.choice([0, 3, 20]))
    case = {"capacity_rps": 2.0, "boot_s": boot_s, "patience_s": 2}

    optimum = second_by_second(counts, dropped=dropped, whole=True, **case)  # type: ignore[arg-type]
    fractional = second_by_second(counts, dropped=dropped, whole=False, **case)  # type: ignore[arg-type]
    in_seconds = linear_bound(np.array(counts), dropped_share=dropped, block_s=1, **case)  # type: ignore[arg-type]
    in_blocks = linear_bound(np.array(counts), dropped_share=dropped, block_s=6, **case)  # type: ignore[arg-type]

    assert in_seconds.replica_hours * 3600 <= optimum + 1e-6
    assert in_blocks.replica_hours <= in_seconds.replica_hours + 1e-9
    if not dropped:
        # Whatever is served in a FIFO order in time can be served so whole programs agree where none is dropped.
        assert in_seconds.replica_hours * 3600 == pytest.approx(fractional, rel=1e-6)
    else:
        assert in_seconds.replica_hours * 3600 <= fractional + 1e-6


@pytest.mark.parametrize(
    ("counts", "boot_s", "patience_s", "dropped", "seconds"),
    [
        # 4/s for a minute on replicas of 2/s. The last two seconds' requests aren't due yet: 232 of 240 are, so 116
        # replica-seconds; no start, since the first fleet is free.
        pytest.param([4] * 60, 30, 2, 0.0, 116, id="constant"),
        # All are due at once where there is no patience.
        pytest.param([4] * 60, 30, 0, 0.0, 120, id="no patience"),
        # A tenth may be dropped: 216 requests, 108 replica-seconds.
        pytest.param([4] * 60, 30, 0, 0.1, 108, id="a tenth dropped"),
        # 2/s, then 4/s: one replica, then a second one that boots for 30 s; 60 + 120 + 30.
        pytest.param([2] * 60 + [4] * 60, 30, 0, 0.0, 210, id="one start"),
    ],
)
def test_worked_by_hand(counts: list[int], boot_s: float, patience_s: int, dropped: float, seconds: float) -> None:
    found = linear_bound(
        np.array(counts), capacity_rps=2.0, boot_s=boot_s, patience_s=patience_s, dropped_share=dropped
    )
    assert found.replica_hours * 3600 == pytest.approx(seconds)


def test_too_few_replicas_are_told() -> None:
    with pytest.raises(NoSolutionError, match="1 to 2 replicas"):
        linear_bound(np.full(120, 50), capacity_rps=2.0, boot_s=0, max_replicas=2)
