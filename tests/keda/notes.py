"""Publications in memory that a test writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from autoscaler.domain.publication import Publication
from autoscaler.domain.reading import Measured, Unknown
from autoscaler.ports import UnavailableError

NOW_S = 1_800_000_000.0


@dataclass
class Notes:
    """Publications in memory, as the port asks for them. ``reads``: how often one was asked for."""

    known: dict[tuple[str, str], Publication] = field(default_factory=dict)
    missing: str = ""
    reads: int = 0
    _wakes: list[Callable[[], None]] = field(default_factory=list)

    def of(self, namespace: str, name: str) -> Publication | None:
        self.reads += 1
        if self.missing:
            raise UnavailableError(self.missing)
        return self.known.get((namespace, name))

    def within(self, namespace: str) -> Sequence[Publication]:
        if self.missing:
            raise UnavailableError(self.missing)
        return [each for (place, _), each in sorted(self.known.items()) if place == namespace]

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        self._wakes.append(wake)
        return lambda: self._wakes.remove(wake)

    def publish(
        self,
        desired: int | Unknown,
        *,
        namespace: str = "prod",
        name: str = "chat",
        targets: Mapping[str, int] | None = None,
        signals: Mapping[str, Measured] | None = None,
        at_s: float = NOW_S,
    ) -> None:
        """Make it the service's latest, and tell those who subscribed."""
        self.known[namespace, name] = Publication(
            namespace=namespace,
            name=name,
            at_s=at_s,
            stale_after_s=15.0,
            desired_replicas=desired,
            targets=tuple((targets or {}).items()),
            signals=tuple((signals or {}).items()),
        )
        for wake in tuple(self._wakes):
            wake()

    @property
    def subscribers(self) -> int:
        return len(self._wakes)
