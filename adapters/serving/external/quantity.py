"""Numbers in the notation of Kubernetes (apimachinery, pkg/api/resource/quantity.go)."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal

_MOST_MILLI = 2**63 - 1


def quantity(value: float) -> str:
    """A whole number, or thousandths as ``1500m``; rounded up, as the HPA's own MilliValue() does.

    Raises ValueError for what is no number, and for what does not fit: the HPA adds in 64 bits of thousandths.
    """
    if not math.isfinite(value):
        raise ValueError(f"{value} is no number")
    if value.is_integer() and abs(value) < _MOST_MILLI / 1000:
        return str(int(value))
    # In decimal, since 2.3 * 1000 is 2300 only there.
    milli = int(Decimal(repr(value)).scaleb(3).to_integral_value(ROUND_CEILING))
    if abs(milli) > _MOST_MILLI:
        raise ValueError(f"{value} does not fit into 64 bits of thousandths")
    whole, part = divmod(milli, 1000)
    return f"{milli}m" if part else str(whole)
