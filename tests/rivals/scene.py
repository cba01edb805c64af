"""What a rival sees, set by hand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from autoscaler.domain.reading import Measured, Unknown, UnknownReason
from loadtests.rivals.seen import Bounds, Facts, PerReplica, Rival

WIDE = Bounds(min_replicas=1, max_replicas=1000)
# 10 requests/s and 5 s each: 50 in flight at capacity.
FACTS = Facts(capacity_rps=10.0, service_s=5.0, kv_capacity_tokens=100_000.0, prompt_tokens=900, output_tokens=200)
LOST = Unknown(UnknownReason.UNREACHABLE, "no answer")
EMPTY = Unknown(UnknownReason.EMPTY_PAGE, "no series")


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A ``Seen`` whose every value is given. ``flights``: in flight by window, else ``flight``."""

    now_s: float = 0.0
    ready: int = 1
    starting: int = 0
    desired: int = 1
    rate: Measured = 0.0
    flight: Measured = 0.0
    flights: dict[float, float] = field(default_factory=dict)
    queue: Measured = 0.0
    before: Measured = 0.0
    running_each: tuple[float, ...] = ()
    waiting_each: tuple[float, ...] = ()
    kv_each: tuple[float, ...] = ()
    ttft: Measured = 0.0
    itl: Measured = LOST
    prompt: Measured = 900.0
    output: Measured = 200.0

    def at(self, now_s: float, **changes: object) -> Scene:
        """The same later, but for ``changes``."""
        return replace(self, now_s=now_s, **changes)  # type: ignore[arg-type]

    def rate_rps(self, window_s: float) -> Measured:
        return self.rate

    def in_flight(self, window_s: float) -> Measured:
        return self.flights.get(window_s, self.flight)

    def waiting(self, window_s: float) -> Measured:
        return self.queue

    def held(self) -> Measured:
        return self.before

    def per_replica(self, window_s: float) -> PerReplica:
        count = max(len(self.running_each), len(self.waiting_each), len(self.kv_each))
        nothing = (0.0,) * count
        return PerReplica(
            running=np.array(self.running_each or nothing),
            waiting=np.array(self.waiting_each or nothing),
            kv_fraction=np.array(self.kv_each or nothing),
        )

    def ttft_s(self, window_s: float) -> Measured:
        return self.ttft

    def itl_s(self, window_s: float) -> Measured:
        return self.itl

    def prompt_tokens(self, window_s: float) -> Measured:
        return self.prompt

    def output_tokens(self, window_s: float) -> Measured:
        return self.output


def fleet(replicas: int, *, starting: int = 0, now_s: float = 0.0, **more: object) -> Scene:
    """A scene with ``replicas`` asked for, all ready but ``starting``."""
    ready = replicas - starting
    return Scene(now_s=now_s, ready=ready, starting=starting, desired=replicas, **more)  # type: ignore[arg-type]


def followed(rival: Rival, scenes: list[Scene]) -> list[int]:
    """The rival's answers, each of which is the ``desired`` (and all ready) of the next scene."""
    answers: list[int] = []
    for scene in scenes:
        last = answers[-1] if answers else scene.desired
        answers.append(rival.desired(replace(scene, desired=last, ready=last, starting=0)))
    return answers
