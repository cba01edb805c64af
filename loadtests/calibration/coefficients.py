"""What describes one engine to the simulator."""

from __future__ import annotations

from dataclasses import dataclass

from adapters.simulation.step_times import EngineShape, StepTimes
from autoscaler.domain.capacity import StepTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """What a request's first token takes besides the engine's steps: connection, parsing, and handing tokens out.

    ``fixed_s`` alone; ``per_running_s`` more for each sequence that runs when it comes, whose tokens the same server
    hands out.
    """

    fixed_s: float
    per_running_s: float


NO_OVERHEAD = Overhead(fixed_s=0.0, per_running_s=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """One engine. ``step``: as the controller would fit it, to ``windows`` windows with a relative ``error``.

    ``shape``: its limits, of which a page tells the KV cache only.
    """

    step: StepTime
    windows: int
    error: float
    shape: EngineShape
    overhead: Overhead

    @property
    def times(self) -> StepTimes:
        """The step time in the simulator's picoseconds."""
        step = self.step
        return StepTimes.of_seconds(c_s=step.c_s, d_s=step.d_s, e_s=step.e_s, a_s=step.a_s)
