"""A fleet of emulated engines in virtual time: what the same engines would do under a plan, computed in a
moment.

Used to know the capacity that a baseline needs: the engines' own model is the truth of an emulated fleet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as OrderedValues
from dataclasses import dataclass

from loadtests.arrivals import Arrivals, from_profile
from loadtests.emulator.batching import ContinuousBatching, EngineLimits, Sequence, StepCost
from loadtests.lengths import LengthQuantiles
from loadtests.rates import steps

_TRIAL_S = 200.0
_BISECTIONS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineModel:
    """One kind of emulated engine."""

    cost: StepCost
    limits: EngineLimits


class _Replica:
    """One engine between its step boundaries."""

    def __init__(self, model: EngineModel) -> None:
        self.engine = ContinuousBatching(cost=model.cost, limits=model.limits)
        self.boundary_s = math.inf

    def advance(self, until_s: float) -> None:
        """Take every step that ends before ``until_s``."""
        while self.boundary_s < until_s:
            self.engine.end_step(self.boundary_s)
            duration_s = self.engine.begin_step(self.boundary_s)
            self.boundary_s = math.inf if duration_s is None else self.boundary_s + duration_s

    def submit(self, sequence: Sequence, now_s: float) -> None:
        self.engine.submit(sequence)
        if math.isinf(self.boundary_s):
            duration_s = self.engine.begin_step(now_s)
            if duration_s is not None:
                self.boundary_s = now_s + duration_s


def replay(arrivals: Arrivals, *, replicas: int, model: EngineModel) -> tuple[Sequence, ...]:
    """Every request's course through a constant fleet behind a router that takes the fewest in flight, then
    the first.

    All requests are finished at the end.
    """
    fleet = [_Replica(model) for _ in range(replicas)]
    sequences = []
    for at_s, prompt, output in zip(
        arrivals.at_s.tolist(), arrivals.prompt_tokens.tolist(), arrivals.output_tokens.tolist(), strict=True
    ):
        for replica in fleet:
            replica.advance(at_s)
        sequence = Sequence(prompt_tokens=prompt, output_tokens=output, arrived_s=at_s)
        sequences.append(sequence)
        least = min(fleet, key=lambda replica: replica.engine.running + replica.engine.waiting)
        least.submit(sequence, at_s)
    for replica in fleet:
        replica.advance(math.inf)
    return tuple(sequences)


def share_within(sequences: OrderedValues[Sequence], *, ttft_s: float, itl_s: float) -> float:
    """Share of finished requests with both the first token and the mean gap in time; 1 for none at all."""
    met = 0
    for sequence in sequences:
        first_s, last_s = sequence.first_token_s, sequence.last_token_s
        if first_s is None or last_s is None:
            continue
        gap_s = (last_s - first_s) / max(1, sequence.generated - 1)
        met += first_s - sequence.arrived_s <= ttft_s and gap_s <= itl_s
    return met / len(sequences) if sequences else 1.0


def capacity_rps(
    model: EngineModel,
    *,
    fleet: int,
    prompts: LengthQuantiles,
    outputs: LengthQuantiles,
    dispersion: float,
    ttft_s: float,
    itl_s: float,
    share: float,
) -> float:
    """Requests per second per replica, in a constant fleet of that size, with ``share`` of them within the
    limits.

    By bisection over steady loads of 200 s, all with the same random numbers.
    """
    low, high = 0.0, _saturation_rps(model, prompts, outputs)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        load = from_profile(
            steps((middle * fleet, _TRIAL_S)),
            prompts=prompts,
            outputs=outputs,
            dispersion=dispersion,
            seed=1,
            label="trial",
        )
        met = share_within(replay(load, replicas=fleet, model=model), ttft_s=ttft_s, itl_s=itl_s)
        low, high = (middle, high) if met >= share else (low, middle)
    return low


def _saturation_rps(model: EngineModel, prompts: LengthQuantiles, outputs: LengthQuantiles) -> float:
    """No engine of this kind serves more: a full batch at the step's constant cost alone."""
    return model.limits.max_num_seqs / (outputs.mean() * model.cost.base_s)
