"""Amounts in the notation of Kubernetes ("2", "1500m", "64Gi", "1e3"), as numbers in base units.

Grammar: apimachinery, pkg/api/resource/quantity.go.
"""

from __future__ import annotations

import re

from adapters.kubernetes.raw_json import ShapeError

_WRITTEN = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:[eE](?P<exponent>[+-]?[0-9]{1,2})|(?P<suffix>[a-zA-Z]{0,2}))"
)
_FACTORS = {
    "n": 1e-9,
    "u": 1e-6,
    "m": 1e-3,
    "": 1.0,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "E": 1e18,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
    "Pi": 2.0**50,
    "Ei": 2.0**60,
}


def quantity(written: str, *, path: str = "") -> float:
    """The amount, exact where it is a whole number below 2**53. Raises ShapeError, which names ``path``."""
    if written.isascii() and written.isdecimal() and len(written) < 16:  # nearly all there are
        return float(written)
    matched = _WRITTEN.fullmatch(written)
    if matched is None or (matched["suffix"] or "") not in _FACTORS:
        where = f"{path}: " if path else ""
        raise ShapeError(f"{where}wanted a quantity such as 2, 1500m or 64Gi, got {written!r}")
    if matched["exponent"] is not None:
        return float(f"{matched['number']}e{matched['exponent']}")
    factor = _FACTORS[matched["suffix"]]
    # Divided, because 1500 / 1000 is exact and 1500 * 0.001 is not.
    return float(matched["number"]) * factor if factor >= 1 else float(matched["number"]) / round(1 / factor)
