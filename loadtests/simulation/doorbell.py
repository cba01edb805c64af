"""Who waits on the clock is woken when requests begin to be held, as the live gateway wakes its controller."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adapters.simulation.clock import VirtualClock
from adapters.simulation.cluster import SimulatedCluster
from autoscaler.domain.service import ServiceId
from loadtests.simulation.setup import FluidServing, Serving

# Clocks that show seconds since the epoch can't tell less apart.
_TICK_S = 1e-6
# While requests are held already, so long until the next look whether they have begun anew.
_LOOK_S = 0.5


class Doorbell:
    """Of one service: it rings at the first request that comes while no replica is open.

    It rings once for each time that requests begin to be held: again after those held were answered or turned away.
    Requests of a fluid fleet come at the end of their second.
    """

    def __init__(self, clock: VirtualClock, cluster: SimulatedCluster, service: ServiceId, serving: Serving) -> None:
        self._clock = clock
        self._cluster = cluster
        self._service = service
        self._comes_s = _comes_s(serving)
        self._looking = False
        self._held = False
        cluster.when_none_is_open(service, self._listen)

    def _listen(self) -> None:
        if not self._looking:
            self._held = False
            self._look_at_next(self._clock.elapsed_s)

    def _look_at_next(self, from_s: float) -> None:
        """Look at the first request that comes at or after then; none does: never."""
        place = int(np.searchsorted(self._comes_s, from_s - _TICK_S))
        self._looking = place < len(self._comes_s)
        if self._looking:
            self._clock.at(self._clock.begin_s + float(self._comes_s[place]) + _TICK_S, self._look)

    def _look(self) -> None:
        self._looking = False
        if self._cluster.open(self._service) > 0:
            return
        held_before, self._held = self._held, self._holds()
        if self._held and not held_before:
            self._clock.wake()
        self._look_at_next(self._clock.elapsed_s + (_LOOK_S if self._held else _TICK_S))

    def _holds(self) -> bool:
        return self._cluster.fleet(self._service).gateway().waiting > 0


def _comes_s(serving: Serving) -> NDArray[np.float64]:
    if isinstance(serving, FluidServing):
        return np.flatnonzero(serving.arrivals.arrivals).astype(np.float64) + 1.0
    return np.asarray(serving.requests.at_s, dtype=np.float64)
