"""The composition shared by every executable: which estimators, and how ports become a controller."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from autoscaler.controller import Controller, Ports
from autoscaler.domain.cluster import ClusterSnapshot
from autoscaler.domain.params import Plans
from autoscaler.domain.reading import AnyGatewayReading, EngineReading, Observations, Unknown
from autoscaler.domain.state import ControllerState, Tick
from autoscaler.ports import MetricsSource, Models
from predictors.capacity import StepTimeCapacity
from predictors.mixture import LevelMixture
from predictors.startup import StartupTimes


def build_models() -> Models:
    """The shipped estimators. They hold no state, so one set serves all services, live and in a replay."""
    return Models(forecaster=LevelMixture(), capacity=StepTimeCapacity(), startup=StartupTimes())


def build_controller(*, ports: Ports, plans: Callable[[], Plans], models: Models | None = None) -> Controller:
    """The controller over these ports; ``plans`` is asked before every tick, so a changed configuration counts.

    ``models``: other estimators than the shipped ones.
    """
    return Controller(ports=ports, models=build_models() if models is None else models, plans=plans)


def collect_garbage_less_often() -> None:
    """Let Python's cycle collector run rarely: a tick makes many values and no cycles, and looking through them all
    costs a fifth of its time.
    """
    gc.set_threshold(100_000, 50, 1000)


class NoJournal:
    """A Journal that keeps nothing."""

    def restore(self) -> ControllerState | None:
        """There is nothing."""

    def record(self, tick: Tick, plans: Plans, next_state: ControllerState) -> None:
        """Forget it."""


class JoinedSource:
    """Several sources as one: each replica and each service is told by the source that knows it.

    They are asked at the same time, so that what hangs behind one of them does not add to what hangs behind another.
    """

    def __init__(self, sources: Sequence[MetricsSource]) -> None:
        self._sources = tuple(sources)

    def read(self, snapshot: ClusterSnapshot) -> Observations:
        """All sources' readings. Raises what a source raises, after all have ended."""
        engines: dict[str, EngineReading | Unknown] = {}
        gateways: dict[str, AnyGatewayReading | Unknown] = {}
        at_s = snapshot.at_s
        with ThreadPoolExecutor(len(self._sources), thread_name_prefix="read") as asking:
            parts = list(asking.map(lambda source: source.read(snapshot), self._sources))
        for part in parts:
            engines.update(part.engines)
            gateways.update(part.gateways)
            at_s = max(at_s, part.at_s)
        return Observations(at_s=at_s, engines=engines, gateways=gateways)
