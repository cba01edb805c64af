"""How the kernels are compiled, and where the machine code is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def _digest_of_sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


_DIGEST = _digest_of_sources()


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """``function`` as machine code, compiled at its first call and kept for the next process where a folder for it
    can be written (``NUMBA_CACHE_DIR``, beside the source, or the user's cache).
    """
    # Numba looks at the file of the function alone to tell whether kept code is stale, not at the kernels and
    # constants of other files that were compiled into it. Kept code is found by name, so the name tells all sources.
    function.__qualname__ = f"{function.__qualname__}_{_DIGEST}"
    try:
        dispatcher = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # no such folder
        dispatcher = numba.njit(nogil=True, error_model="numpy")(function)
    return cast("Callable[P, R]", dispatcher)
