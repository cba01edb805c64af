"""What an online estimator has learned so far, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Learned:
    """Named arrays of one estimator. They are never changed in place: learning returns a new value.

    Keeping the state outside the estimator makes the decision a function of its arguments, so that a recorded
    decision can be computed again.
    """

    model: str
    arrays: Mapping[str, NDArray[Any]]
