"""The shipped step-time profiles by the names that a file uses."""

from __future__ import annotations

from collections.abc import Mapping

from autoscaler.domain.capacity import StepTime

PROFILES: Mapping[str, StepTime] = {}
