"""Arrays of several services put together, and taken apart again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", np.float64, np.float32)


def stacked(rows: Sequence[NDArray[Number]]) -> NDArray[Number]:
    """Arrays of one shape as one with an axis for the services before theirs; read it only."""
    if len(rows) == 1:
        return rows[0][None]
    return np.concatenate(rows).reshape(len(rows), *rows[0].shape)


def unstacked(stack: NDArray[Number]) -> list[NDArray[Number]]:
    """Each service's part, in memory of its own: a view of a part would keep all of the others alive."""
    return [stack[0]] if len(stack) == 1 else [row.copy() for row in stack]
