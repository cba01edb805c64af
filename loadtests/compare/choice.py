"""What a user typed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class ChoiceError(ValueError):
    """What was typed makes no study: which option, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The options of the command, as typed.

    ``config``: None for the shipped defaults; ``service``: which of its services, None where it has but one.
    ``peak_replicas``: None for what the configuration allows. ``days``: (first, past the last), None for all.
    ``tried``: KEY=VALUE,VALUE each. ``warmup_s``: at the begin, served and not scored.
    """

    traces: Sequence[str]
    config: Path | None
    boots_s: Sequence[float]
    seeds: int
    peak_replicas: float | None
    capacity_rps: float | None
    engine: bool | None
    days: tuple[float, float] | None
    rivals: Sequence[str]
    baseline: str
    tried: Sequence[str]
    knob_values: int
    refinements: int
    metric_lag_s: float
    warmup_s: float = 0.0
    service: str | None = None
