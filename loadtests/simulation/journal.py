"""What a controller leaves to its successor."""

from __future__ import annotations

from autoscaler.codec import decode, encode
from autoscaler.domain.params import Plans
from autoscaler.domain.state import ControllerState, Tick


class HandoverJournal:
    """A Journal that keeps the latest state. Who restores it gets what would have been read from a file."""

    def __init__(self) -> None:
        self._latest: ControllerState | None = None

    def restore(self) -> ControllerState | None:
        """The state after the last tick, written and read again."""
        return None if self._latest is None else decode(ControllerState, encode(self._latest))

    def record(self, tick: Tick, plans: Plans, next_state: ControllerState) -> None:
        """Keep it."""
        self._latest = next_state
