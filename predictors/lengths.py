"""Prompt and output lengths as a joint lognormal with the moments that were measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autoscaler.domain.capacity import RequestShape
from autoscaler.domain.reading import Unknown, UnknownReason

_LARGEST = 1e20  # of any moment; no model has contexts that long
# Heavier tails than this (coefficient of variation 10) are taken for an artefact of a short window.
_MOST_SPREAD = 100.0


def normal_nodes(count: int, reach: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points of a standard normal within +-``reach`` and their weights (sum 1); exact for smooth functions."""
    points = np.linspace(-reach, reach, count)
    weights = np.exp(-points * points / 2)
    return points, weights / weights.sum()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Lognormal prompt length p and output length o: means and (co)variances of their logarithms."""

    prompt_log: float
    output_log: float
    prompt_var: float
    output_var: float
    covariance: float

    @classmethod
    def of(cls, shape: RequestShape) -> Lengths | Unknown:
        """From measured moments; what no two lengths can have (E[x^2] < E[x]^2) is taken as no spread."""
        terms = (shape.prompt, shape.output, shape.prompt_sq, shape.output_sq, shape.prompt_x_output)
        if not all(0 <= term <= _LARGEST for term in terms):
            return Unknown(UnknownReason.OUT_OF_RANGE, f"moments of the request lengths: {terms}")
        prompt, output = min(max(shape.prompt, 1.0), 1e8), min(max(shape.output, 1.0), 1e8)
        prompt_var = math.log(min(max(shape.prompt_sq / prompt**2, 1.0), 1.0 + _MOST_SPREAD))
        output_var = math.log(min(max(shape.output_sq / output**2, 1.0), 1.0 + _MOST_SPREAD))
        most = math.sqrt(prompt_var * output_var)
        covariance = math.log(max(shape.prompt_x_output / (prompt * output), 1e-9))
        return cls(
            prompt_log=math.log(prompt) - prompt_var / 2,
            output_log=math.log(output) - output_var / 2,
            prompt_var=prompt_var,
            output_var=output_var,
            covariance=min(max(covariance, -most), most),
        )

    def moment(self, i: int, j: int) -> float:
        """E[p^i o^j]."""
        spread = i * i * self.prompt_var + j * j * self.output_var + 2 * i * j * self.covariance
        return math.exp(i * self.prompt_log + j * self.output_log + spread / 2)

    def output_cv_sq(self) -> float:
        """Squared coefficient of variation of the output length."""
        return math.expm1(self.output_var)

    def prompts(self, normal: NDArray[np.float64]) -> NDArray[np.float64]:
        """Prompt lengths at these points of a standard normal."""
        lengths: NDArray[np.float64] = np.exp(self.prompt_log + math.sqrt(self.prompt_var) * normal)
        return lengths

    def outputs(self, normal: NDArray[np.float64]) -> NDArray[np.float64]:
        """Output lengths at these points of a standard normal."""
        lengths: NDArray[np.float64] = np.exp(self.output_log + math.sqrt(self.output_var) * normal)
        return lengths
