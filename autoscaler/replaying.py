"""Recorded ticks decided again: the same inputs through the same objects must give the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from adapters.local.recording import Recording
from autoscaler.codec import encode, to_plain
from autoscaler.compose import build_models
from autoscaler.domain.plan import ServiceDecision
from autoscaler.domain.service import ServiceId
from autoscaler.policy.deciding import decide


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where a recomputed decision differs: the path of the first differing value, as recorded and as computed."""

    path: str
    recorded: str
    computed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One recorded decision of one service, computed again. ``differences`` empty: identical to the byte."""

    at_s: float
    service: ServiceId
    desired: int
    differences: tuple[Difference, ...]


def replay(recording: Recording) -> Iterator[Replayed]:
    """Every recorded decision that can be computed again, oldest first. Raises PortError where the file can't be read.

    After a difference the computation goes on from its own memory, as the running controller would.
    """
    models = build_models()
    for segment in recording.segments():
        state = segment.state
        for tick in segment.ticks:
            decision, state = decide(
                now_s=tick.now_s,
                state=state,
                services=segment.plans.services,
                snapshot=tick.snapshot,
                observations=tick.observations,
                models=models,
                params=segment.plans.params,
            )
            for recorded in tick.decision.services:
                computed = decision.of(recorded.service)
                yield Replayed(
                    at_s=tick.now_s,
                    service=recorded.service,
                    desired=recorded.desired,
                    differences=_compare(recorded, computed),
                )


def _compare(recorded: ServiceDecision, computed: ServiceDecision | None) -> tuple[Difference, ...]:
    if computed is None:
        return (Difference(path="", recorded="a decision", computed="none"),)
    if encode(recorded) == encode(computed):
        return ()
    return tuple(_differences("", to_plain(recorded), to_plain(computed)))


def _differences(path: str, recorded: object, computed: object) -> Iterator[Difference]:
    if isinstance(recorded, dict) and isinstance(computed, dict):
        for key in sorted({*recorded, *computed}):
            yield from _differences(f"{path}.{key}" if path else key, recorded.get(key), computed.get(key))
    elif isinstance(recorded, list) and isinstance(computed, list) and len(recorded) == len(computed):
        for index, (then, now) in enumerate(zip(recorded, computed, strict=True)):
            yield from _differences(f"{path}[{index}]", then, now)
    elif recorded != computed:
        yield Difference(path=path, recorded=repr(recorded), computed=repr(computed))
