"""What a connection of a client is allowed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of each connection.

    ``age_s``: from then on the client is asked to connect anew, a tenth sooner or later so that not all do at once.
    ``silent_s``: so often it is asked whether it is still there. ``answer_s``: within this it has to say so, and to
    greet at first.
    """

    max_message_bytes: int
    max_streams: int
    age_s: float
    silent_s: float = 30.0
    answer_s: float = 10.0
