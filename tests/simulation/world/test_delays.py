"""Distributions of start-up times."""

from __future__ import annotations

import numpy as np
import pytest

from adapters.simulation.delays import Delay, Fixed, Lognormal, Quantiles, model_loading


@pytest.mark.parametrize(
    ("delay", "median_s", "p95_s"),
    [
        pytest.param(Fixed(60.0), 60.0, 60.0, id="fixed"),
        pytest.param(Lognormal(median_s=60.0, p95_s=120.0), 60.0, 120.0, id="lognormal"),
        pytest.param(Quantiles(shares=(0, 0.5, 0.95, 1), times_s=(1, 10, 90, 100)), 10.0, 90.0, id="quantiles"),
        # Medians and 95 % quantile as published for this data.
        pytest.param(model_loading(), 22.7, 45.4, id="model loading"),
    ],
)
def test_quantiles_of_draws(delay: Delay, median_s: float, p95_s: float) -> None:
    random = np.random.default_rng(1)
    draws = [delay.draw_s(random) for _ in range(20_000)]
    assert np.quantile(draws, [0.5, 0.95]).tolist() == pytest.approx([median_s, p95_s], rel=0.04)
    assert min(draws) >= 0


def test_equal_seeds_give_equal_draws() -> None:
    delay = Lognormal(median_s=60.0, p95_s=120.0)
    first, second = (np.random.default_rng(7) for _ in range(2))
    assert [delay.draw_s(first) for _ in range(5)] == [delay.draw_s(second) for _ in range(5)]


def test_impossible_delays_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        Fixed(-1.0)
    with pytest.raises(ValueError, match="median_s <= p95_s"):
        Lognormal(median_s=60.0, p95_s=30.0)
    with pytest.raises(ValueError, match="from 0 to 1"):
        Quantiles(shares=(0.1, 1.0), times_s=(1.0, 2.0))
    with pytest.raises(ValueError, match="not descend"):
        Quantiles(shares=(0.0, 1.0), times_s=(2.0, 1.0))
