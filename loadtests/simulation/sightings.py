"""What a rival sees: gauges sampled as its own collector would, and rates from counters.

A sample is taken at every turn, ``lag_s`` before it. Arrivals over a window are counted without an error of sampling;
everything else is known at the samples. Where no replica tells anything, the values before are used for five minutes
(Prometheus's look-back), and then nothing is known.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from adapters.simulation.clock import Order
from autoscaler.domain.cluster import ClusterSnapshot, Phase
from autoscaler.domain.reading import EngineReading, Measured, Unknown, UnknownReason
from autoscaler.ports import MetricsSource, PortError
from loadtests.rivals.seen import PerReplica
from loadtests.simulation.samples import Sample, Sums, largest, mean_since
from loadtests.simulation.setup import SERVICE, FluidServing, Setup
from loadtests.simulation.world import World

Floats = NDArray[np.float64]

_LOOK_BACK_S = 300.0
_KEPT_S = 3700.0
_SAME_S = 1e-6
_NOTHING = Unknown(UnknownReason.NO_OBSERVATIONS)
_OLD = Unknown(UnknownReason.STALE, "no replica told anything for minutes")


class Sightings:
    """The samples of one run. ``lag_s``: how old a sample is at the turn for which it is taken."""

    def __init__(self, world: World, source: MetricsSource, *, every_s: float, lag_s: float) -> None:
        self._world = world
        self._source = source
        self._lag_s = lag_s
        self._samples: list[Sample] = []
        self._arrived = _arrived(world.setup)
        world.clock.every(every_s, self._take, Order.SCRAPE, first_s=(-lag_s) % every_s)

    def now(self) -> Sight:
        """What can be seen now. Raises UnavailableError where the cluster can't be read."""
        snapshot = self._world.inventory.snapshot()
        now_s = self._world.clock.elapsed_s
        known = bisect_right(self._samples, now_s - self._lag_s + _SAME_S, key=_at_s)
        samples = self._samples[:known] if known < len(self._samples) else self._samples
        return Sight(snapshot, samples, self._arrived, self._world.setup, now_s=now_s)

    def _take(self) -> None:
        try:
            snapshot = self._world.inventory.snapshot()
        except PortError:
            return
        seen = self._source.read(snapshot)
        pages = {name: page for name, page in seen.engines.items() if isinstance(page, EngineReading)}
        ready = tuple(each.name for each in snapshot.replicas if each.phase is Phase.READY)
        if ready and not pages:
            return
        clock = self._world.clock
        made_s = [page.at_s - clock.begin_s for page in pages.values()] or [clock.elapsed_s]
        at_s = max(made_s)
        if self._samples and at_s <= self._samples[-1].at_s:
            return
        held = float(self._world.cluster.fleet(SERVICE).gateway().waiting)
        self._samples.append(Sample.of(pages, made_s=made_s, ready=ready, held=held))
        if self._samples[0].at_s < at_s - 2 * _KEPT_S:
            self._samples = self._samples[bisect_left(self._samples, at_s - _KEPT_S, key=_at_s) :]


class Sight:
    """A ``Seen``."""

    def __init__(
        self, snapshot: ClusterSnapshot, samples: Sequence[Sample], arrived: Floats, setup: Setup, *, now_s: float
    ) -> None:
        phases = [each.phase for each in snapshot.replicas]
        self.now_s = now_s
        self.ready = phases.count(Phase.READY)
        self.starting = phases.count(Phase.STARTING)
        self.desired = sum(each.replicas for each in snapshot.targets)
        self._samples = samples
        self._arrived = arrived
        self._setup = setup

    def rate_rps(self, window_s: float) -> Measured:
        """See ``Seen``."""
        newest = self._newest()
        if isinstance(newest, Unknown):
            return newest
        until_s = newest.counted_s
        since_s = max(0.0, until_s - window_s)
        if until_s <= since_s:
            return _NOTHING
        return (_at(self._arrived, until_s) - _at(self._arrived, since_s)) / (until_s - since_s)

    def in_flight(self, window_s: float) -> Measured:
        """See ``Seen``."""
        return self._mean(lambda each: sum(each.running.values()) + sum(each.waiting.values()) + each.held, window_s)

    def waiting(self, window_s: float) -> Measured:
        """See ``Seen``."""
        return self._mean(lambda each: sum(each.waiting.values()) + each.held, window_s)

    def held(self) -> Measured:
        """See ``Seen``."""
        newest = self._newest()
        return newest if isinstance(newest, Unknown) else newest.held

    def per_replica(self, window_s: float) -> PerReplica:
        """See ``Seen``."""
        newest = self._newest()
        if isinstance(newest, Unknown):
            missing = np.full(self.ready, np.nan)
            return PerReplica(missing, missing, missing)
        within = self._within(newest, window_s)
        return PerReplica(
            running=np.array([largest([each.running for each in within], name) for name in newest.ready]),
            waiting=np.array([largest([each.waiting for each in within], name) for name in newest.ready]),
            kv_fraction=np.array([largest([each.kv_fraction for each in within], name) for name in newest.ready]),
        )

    def ttft_s(self, window_s: float) -> Measured:
        """See ``Seen``."""
        return self._mean_of(lambda each: each.ttft, window_s)

    def itl_s(self, window_s: float) -> Measured:
        """See ``Seen``."""
        return self._mean_of(lambda each: each.itl, window_s)

    def prompt_tokens(self, window_s: float) -> Measured:
        """See ``Seen``."""
        serving = self._setup.serving
        if isinstance(serving, FluidServing):
            return serving.arrivals.prompt_tokens
        return self._mean_of(lambda each: each.prompts, window_s)

    def output_tokens(self, window_s: float) -> Measured:
        """See ``Seen``."""
        serving = self._setup.serving
        if isinstance(serving, FluidServing):
            return serving.arrivals.output_tokens
        return self._mean_of(lambda each: each.outputs, window_s)

    def _newest(self) -> Sample | Unknown:
        if not self._samples:
            return _NOTHING
        newest = self._samples[-1]
        return _OLD if self.now_s - newest.at_s > _LOOK_BACK_S else newest

    def _within(self, newest: Sample, window_s: float) -> Sequence[Sample]:
        """The samples of the window that ends with the newest; that one alone for a window of 0."""
        first = bisect_right(self._samples, newest.at_s - window_s + _SAME_S, key=_at_s)
        return self._samples[min(first, len(self._samples) - 1) :]

    def _mean(self, value: Callable[[Sample], float], window_s: float) -> Measured:
        newest = self._newest()
        if isinstance(newest, Unknown):
            return newest
        within = self._within(newest, window_s)
        return sum(value(each) for each in within) / len(within)

    def _mean_of(self, sums: Callable[[Sample], Sums], window_s: float) -> Measured:
        newest = self._newest()
        if isinstance(newest, Unknown):
            return newest
        before = bisect_right(self._samples, newest.at_s - window_s + _SAME_S, key=_at_s) - 1
        then = sums(self._samples[before]) if before >= 0 else {}
        mean = mean_since(sums(newest), then)
        return _NOTHING if mean is None else mean


def _arrived(setup: Setup) -> Floats:
    """Requests that have come by the end of each second, from 0 s on."""
    if isinstance(setup.serving, FluidServing):
        counts = setup.serving.arrivals.arrivals.astype(np.float64)
    else:
        seconds = int(setup.duration_s) + 1
        ends = np.ceil(setup.serving.requests.at_s).astype(np.int64)
        counts = np.bincount(ends, minlength=seconds + 1)[1:].astype(np.float64)
    return np.concatenate([[0.0], np.cumsum(counts)])


def _at(arrived: Floats, at_s: float) -> float:
    """Linear inside a second."""
    second = min(int(at_s), len(arrived) - 1)
    following = min(second + 1, len(arrived) - 1)
    return float(arrived[second] + (arrived[following] - arrived[second]) * (at_s - second))


def _at_s(sample: Sample) -> float:
    return sample.at_s
