"""What others are told of a service: the number of replicas it should have, and the signals behind it.

An HPA, KEDA or a person reads it from whichever replica of the controller answers; all of them must say the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from autoscaler.domain.reading import Measured, Unknown

DESIRED_REPLICAS = "desired_replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """The latest decision on one service, as it is told to others.

    ``namespace``, ``name``: of the resource that asks for the service. ``labels``: what selectors may ask for.
    ``at_s``: when it was decided; from ``stale_after_s`` seconds later on it is no answer any more.
    ``desired_replicas``: all variants together; Unknown while no number may be given, with the reason and what to do.
    ``targets``: the same by variant. ``signals``: what was measured, by name and in the unit that the name ends with.
    """

    namespace: str
    name: str
    at_s: float
    stale_after_s: float
    desired_replicas: int | Unknown
    targets: tuple[tuple[str, int], ...] = ()
    signals: tuple[tuple[str, Measured], ...] = ()
    labels: tuple[tuple[str, str], ...] = field(default=())

    def value(self, metric: str) -> Measured | None:
        """``desired_replicas`` or one of the signals; None where no such name exists."""
        if metric == DESIRED_REPLICAS:
            desired = self.desired_replicas
            return desired if isinstance(desired, Unknown) else float(desired)
        return dict(self.signals).get(metric)

    def stale(self, now_s: float) -> bool:
        """True once it is too old to be relied on."""
        return now_s - self.at_s > self.stale_after_s
