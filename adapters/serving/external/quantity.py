"""Numbers in the notation of Kubernetes (apimachinery, pkg/api/resource/quantity.go)."""

from __future__ import annotations

import math

_MOST_MILLI = 2**63 - 1


def quantity(value: float) -> str:
    """A whole number, or thousandths as ``1500m``; rounded up, as the HPA's own MilliValue() does.

    Raises ValueError for what is no number, and for what does not fit: the HPA adds in 64 bits of thousandths.
    """
    if not math.isfinite(value):
        raise ValueError(f"{value} is no number")
    # The product may lie a hair above the thousandth that was meant (1.005 * 1000 = 1004.9999..., 2.3 * 1000 = 2300).
    near = round(value * 1000)
    milli = near if math.isclose(near, value * 1000, rel_tol=1e-12, abs_tol=1e-9) else math.ceil(value * 1000)
    if abs(milli) > _MOST_MILLI:
        raise ValueError(f"{value} does not fit into 64 bits of thousandths")
    whole, part = divmod(milli, 1000)
    return f"{milli}m" if part else str(whole)
