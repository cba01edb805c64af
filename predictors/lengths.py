"""Prompt and output lengths as a joint lognormal with the moments that were measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autoscaler.domain.capacity import RequestShape
from autoscaler.domain.reading import Unknown, UnknownReason

Array = NDArray[np.float64]

_LARGEST = 1e20  # of any moment; no model has contexts that long
# Heavier tails than this (coefficient of variation 10) are taken for an artefact of a short window.
_MOST_SPREAD = 100.0


@dataclass(frozen=True, slots=True)
class Nodes:
    """Equidistant points of a standard normal, and their weights (sum 1)."""

    points: Array
    weights: Array
    spacing: float

    @classmethod
    def normal(cls, *, count: int, reach: float) -> Nodes:
        """``count`` points within +-``reach``."""
        points = np.linspace(-reach, reach, count)
        weights = np.exp(-points * points / 2)
        return cls(points, weights / weights.sum(), float(points[1] - points[0]))


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
            prompt_log=_rounded(math.log(prompt) - prompt_var / 2),
            output_log=_rounded(math.log(output) - output_var / 2),
            prompt_var=_rounded(prompt_var),
            output_var=_rounded(output_var),
            covariance=_rounded(min(max(covariance, -most), most)),
        )

    def moment(self, i: int, j: int) -> float:
        """E[p^i o^j]."""
        spread = i * i * self.prompt_var + j * j * self.output_var + 2 * i * j * self.covariance
        return math.exp(i * self.prompt_log + j * self.output_log + spread / 2)

    def output_cv_sq(self) -> float:
        """Squared coefficient of variation of the output length."""
        return math.expm1(self.output_var)

    def prompts(self, nodes: Nodes) -> tuple[Array, Array]:
        """Prompt lengths at the nodes, and the variance of the lengths that each node stands for."""
        return _at_nodes(nodes, self.prompt_log, self.prompt_var)

    def outputs(self, nodes: Nodes) -> tuple[Array, Array]:
        """Output lengths at the nodes, and the variance of the lengths that each node stands for."""
        return _at_nodes(nodes, self.output_log, self.output_var)


def _rounded(log: float) -> float:
    """Without the last digits, in which lengths differ that were only forgotten a little, in proportion."""
    return round(log, 10)


def _at_nodes(nodes: Nodes, mean_log: float, var_log: float) -> tuple[Array, Array]:
    lengths = np.exp(mean_log + math.sqrt(var_log) * nodes.points)
    # A uniform spread over the spacing: without it a sum over nodes goes in jumps where the integral is smooth.
    return lengths, lengths * lengths * (var_log * nodes.spacing**2 / 12.0)
