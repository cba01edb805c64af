"""NVIDIA Dynamo's planner, throughput mode: a forecast of the next interval by the engine's rate within the SLA.

Sources: ai-dynamo/dynamo, ``components/src/dynamo/planner/core/throughput_scaling.py`` (``_throughput_agg``),
``core/load/predictors.py`` (``KalmanPredictor``) and ``config/defaults.py`` (interval 180 s; Kalman level noise 1.0,
trend noise 0.1, measurement noise 10.0; at least one replica).

Read in its favour: the predictor is its Kalman filter, which its source calls better than ARIMA (the default, fitted
once, on the first five points) for bursty traffic; the engine's rate within the SLA is the true capacity, times the
knob; its answer is set at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from autoscaler.domain.reading import Unknown
from loadtests.rivals.seen import Bounds, Contender, Facts, Knob, Rival, Seen

INTERVAL_S = 180.0


class LocalTrend:
    """A Kalman filter of level and trend, one step of forecast after each value."""

    def __init__(self, *, level_noise: float = 1.0, trend_noise: float = 0.1, measurement_noise: float = 10.0) -> None:
        self._noise = level_noise, trend_noise, measurement_noise
        self._level: float | None = None
        self._trend = 0.0
        self._cov = (1000.0, 0.0, 1000.0)

    def forecast(self, value: float) -> float:
        """The next value, after ``value``. Leading zeros are not taken in."""
        if self._level is None:
            if value == 0:
                return 0.0
            # The first value starts the filter without an update, which keeps its wide prior.
            self._level = value
        else:
            self._update(value)
        self._predict()
        return self._level

    def _update(self, value: float) -> None:
        assert self._level is not None
        ll, lt, tt = self._cov
        innovation, spread = value - self._level, ll + self._noise[2]
        gain_level, gain_trend = ll / spread, lt / spread
        self._level += gain_level * innovation
        self._trend += gain_trend * innovation
        self._cov = ((1 - gain_level) * ll, (1 - gain_level) * lt, tt - gain_trend * lt)

    def _predict(self) -> None:
        assert self._level is not None
        ll, lt, tt = self._cov
        self._level += self._trend
        self._cov = (ll + 2 * lt + tt + self._noise[0], lt + tt, tt + self._noise[1])


@dataclass(slots=True)
class DynamoThroughput:
    """One planner. ``engine_rps``: what an engine serves within the SLA."""

    engine_rps: float
    bounds: Bounds
    predictor: LocalTrend

    def desired(self, seen: Seen) -> int:
        """One interval."""
        rate = seen.rate_rps(INTERVAL_S)
        if isinstance(rate, Unknown):
            return self.bounds.within(seen.desired)
        requests = max(0.0, self.predictor.forecast(rate * INTERVAL_S))
        return self.bounds.within(max(1, math.ceil(requests / INTERVAL_S / self.engine_rps)))


def _make(share: float, bounds: Bounds, facts: Facts) -> Rival:
    return DynamoThroughput(share * facts.capacity_rps, bounds, LocalTrend())


DYNAMO_THROUGHPUT = Contender(
    name="Dynamo, throughput",
    how="Kalman forecast of the next 180 s by the engine's rate within the SLA",
    sources=(
        "ai-dynamo/dynamo components/src/dynamo/planner/core/throughput_scaling.py",
        "ai-dynamo/dynamo components/src/dynamo/planner/core/load/predictors.py",
    ),
    interval_s=INTERVAL_S,
    lag_s=None,
    knob=Knob(
        name="engine rate, share of capacity",
        default=1.0,
        values=(1.3, 1.2, 1.1, 1.05, 1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.45, 0.4, 0.3, 0.2),
    ),
    make=_make,
)
