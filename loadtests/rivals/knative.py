"""Knative's pod autoscaler (KPA).

Sources: knative/serving, ``pkg/autoscaler/scaling/autoscaler.go`` (``Scale``), ``pkg/autoscaler/config/config.go``
(defaults: stable window 60 s, panic window 10 % of it, panic threshold 200 %, target utilisation 70 %, scale-up rate
1000, scale-down rate 2, no scale-down delay) and ``pkg/autoscaler/scaling/multiscaler.go`` (a tick every 2 s).
Concurrency is scraped from the queue proxies every second, so what it sees is a second old.

Its other metric is requests per second (``autoscaling.knative.dev/metric: rps``), the same formula by the rate.

Read in its favour: its target is a share of the true concurrency at a replica's capacity (``containerConcurrency``
set from a load test rather than the default of 100), and requests held because no replica is ready are seen, as its
activator sees them. At zero the last replica goes at once, not after the 30 s grace.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from autoscaler.domain.reading import Measured, Unknown
from loadtests.rivals.seen import Bounds, Contender, Facts, Knob, Rival, Seen

TICK_S = 2.0
SCRAPE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KpaSettings:
    """``target``: concurrency a replica. Rates: largest factor of the ready replicas in one decision.

    ``ratchet``: in panic the replicas only grow.
    """

    target: float
    stable_window_s: float = 60.0
    panic_window_s: float = 6.0
    panic_threshold: float = 2.0
    max_up_rate: float = 1000.0
    max_down_rate: float = 2.0
    scale_down_delay_s: float = 0.0
    ratchet: bool = True


def _total(seen: Seen, window_s: float) -> Measured:
    return seen.in_flight(window_s)


def _rate(seen: Seen, window_s: float) -> Measured:
    return seen.rate_rps(window_s)


class Kpa:
    """One revision's decider, with its panic and its delay window. ``read``: its metric over a window in seconds."""

    def __init__(self, settings: KpaSettings, bounds: Bounds, read: Callable[[Seen, float], Measured] = _total) -> None:
        self._settings = settings
        self._read = read
        self._bounds = bounds
        self._panic_since_s: float | None = None
        self._panic_pods = 0
        self._started = False
        self._recent: deque[tuple[float, int]] = deque()

    def desired(self, seen: Seen) -> int:
        """One tick. Without data the last answer stands."""
        if not self._started:
            self._started = True
            if seen.ready > 1:
                # It starts in panic when there are replicas, so that an empty window doesn't take them away.
                self._panic_since_s, self._panic_pods = seen.now_s, seen.ready
        settings = self._settings
        stable, burst = self._read(seen, settings.stable_window_s), self._read(seen, settings.panic_window_s)
        if isinstance(stable, Unknown) or isinstance(burst, Unknown):
            return self._bounds.within(seen.desired)
        ready = max(1, seen.ready)
        lowest = math.floor(ready / settings.max_down_rate)
        highest = math.ceil(settings.max_up_rate * ready)
        panic_wanted = math.ceil(burst / settings.target)
        wanted = min(max(math.ceil(stable / settings.target), lowest), highest)
        self._judge_panic(seen.now_s, over=panic_wanted / ready >= settings.panic_threshold)
        if self._panic_since_s is not None:
            wanted = max(wanted, min(max(panic_wanted, lowest), highest))
            if settings.ratchet:
                wanted = self._panic_pods = max(self._panic_pods, wanted)
        return self._bounds.within(self._delayed(seen.now_s, wanted))

    def _judge_panic(self, now_s: float, *, over: bool) -> None:
        if over:
            self._panic_since_s = now_s
        elif self._panic_since_s is not None and self._panic_since_s + self._settings.stable_window_s < now_s:
            self._panic_since_s, self._panic_pods = None, 0

    def _delayed(self, now_s: float, wanted: int) -> int:
        delay = self._settings.scale_down_delay_s
        if not delay:
            return wanted
        self._recent.append((now_s, wanted))
        while self._recent[0][0] <= now_s - delay:
            self._recent.popleft()
        return max(replicas for _, replicas in self._recent)


def _by_concurrency(share: float, bounds: Bounds, facts: Facts) -> Rival:
    return Kpa(KpaSettings(target=share * facts.concurrency), bounds)


def _by_rate(share: float, bounds: Bounds, facts: Facts) -> Rival:
    return Kpa(KpaSettings(target=share * facts.capacity_rps), bounds, _rate)


_SOURCES = (
    "knative/serving pkg/autoscaler/scaling/autoscaler.go",
    "knative/serving pkg/autoscaler/config/config.go",
)
_UTILISATION = Knob(
    name="target utilisation",
    default=0.7,
    values=(1.3, 1.2, 1.1, 1.05, 1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.45, 0.4, 0.3, 0.2),
)
KNATIVE_KPA = Contender(
    name="Knative KPA",
    how="concurrency over 60 s and, in panic, 6 s, by a share of that at a replica's capacity",
    sources=_SOURCES,
    interval_s=TICK_S,
    lag_s=SCRAPE_S,
    knob=_UTILISATION,
    make=_by_concurrency,
)
KNATIVE_RPS = Contender(
    name="Knative KPA, request rate",
    how="requests/s over 60 s and, in panic, 6 s, by a share of a replica's capacity",
    sources=_SOURCES,
    interval_s=TICK_S,
    lag_s=SCRAPE_S,
    knob=_UTILISATION,
    make=_by_rate,
)
