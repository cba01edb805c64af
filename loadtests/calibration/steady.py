"""A steady load: requests of one kind at one rate, the same for an engine and for its simulation, in turns."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from loadtests.arrivals import Arrivals, from_profile
from loadtests.lengths import LengthQuantiles, parse_lengths
from loadtests.rates import steps

_TURNS = 1000  # seeds that one load may use up


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyLoad:
    """Poisson arrivals at ``rps`` in turns of ``turn_s``; the same ``seed`` gives the same. Raises ValueError."""

    rps: float
    prompts: LengthQuantiles
    outputs: LengthQuantiles
    turn_s: float
    seed: int

    def __post_init__(self) -> None:
        for name, value in (("rps", self.rps), ("turn_s", self.turn_s)):
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be above 0 and finite, got {value:g}")

    @property
    def label(self) -> str:
        """For tables: rate and mean lengths."""
        return f"{self.rps:g}/s of {self.prompts.mean():.0f} + {self.outputs.mean():.0f} tokens"

    def warmup(self, duration_s: float) -> Arrivals:
        """Some of its requests, to be sent before any of its turns."""
        return replace(self, turn_s=duration_s).turn(_TURNS - 1)

    def turn(self, number: int) -> Arrivals:
        """What a client sends in the load's turn of that number, from 0; each turn has requests of its own."""
        return from_profile(
            steps((self.rps, self.turn_s)),
            prompts=self.prompts,
            outputs=self.outputs,
            dispersion=1.0,
            seed=_TURNS * self.seed + number,
            label=self.label,
        )


def parse_load(text: str, *, turn_s: float, seed: int) -> SteadyLoad:
    """``RPS:PROMPT/OUTPUT``, each length ``MEAN`` or ``MEAN~CV``: 2.5:400~0.5/60. Raises ValueError."""
    rate, _, lengths = text.partition(":")
    prompts, _, outputs = lengths.partition("/")
    try:
        return SteadyLoad(
            rps=float(rate),
            prompts=parse_lengths(prompts),
            outputs=parse_lengths(outputs),
            turn_s=turn_s,
            seed=seed,
        )
    except ValueError as error:
        raise ValueError(f"a load is RPS:PROMPT/OUTPUT such as 2.5:400~0.5/60; got {text!r} ({error})") from None
