"""How the kernels are compiled, and where the machine code is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def _digest_of_sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


_DIGEST = _digest_of_sources()
# Kernels make no arrays, and the caller holds those that it hands over: counting references to them, which takes
# half of the time, is needless.
_WITHOUT_REFERENCE_COUNTS = {"_nrt": False}


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """``function`` as machine code, compiled at its first call and kept for the next process where a folder for it
    can be written (``NUMBA_CACHE_DIR``, beside the source, or the user's cache).
    """
    return _compiled(function)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """``function`` as a part of each kernel that calls it: handing over all the arrays costs more than it does."""
    return _compiled(function, forceinline=True)


def _compiled(function: Callable[P, R], *, forceinline: bool = False) -> Callable[P, R]:
    # Numba looks at the file of the function alone to tell whether kept code is stale, not at the kernels and
    # constants of other files that were compiled into it. Kept code is found by name, so the name tells all sources.
    function.__qualname__ = f"{function.__qualname__}_{_DIGEST}"
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "forceinline": forceinline}
    options |= _WITHOUT_REFERENCE_COUNTS
    try:
        dispatcher = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no such folder
        dispatcher = numba.njit(**options)(function)
    return cast("Callable[P, R]", dispatcher)
