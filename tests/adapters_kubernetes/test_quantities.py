"""Kubernetes' notation of amounts."""

from __future__ import annotations

import pytest

from adapters.kubernetes.quantities import quantity
from adapters.kubernetes.raw_json import ShapeError


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        pytest.param("8", 8.0, id="whole"),
        pytest.param("0", 0.0, id="zero"),
        pytest.param("1500m", 1.5, id="thousandths"),
        pytest.param("100n", 1e-7, id="nano"),
        pytest.param("1k", 1000.0, id="kilo"),
        pytest.param("64Gi", 64 * 2.0**30, id="gibibytes"),
        pytest.param("1e3", 1000.0, id="exponent"),
        pytest.param("12E2", 1200.0, id="exponent in capitals"),
        pytest.param("1E", 1e18, id="exa"),
        pytest.param("0.5", 0.5, id="point"),
        pytest.param(".5", 0.5, id="bare point"),
        pytest.param("-2", -2.0, id="negative"),
        pytest.param("9223372036854775807", 2.0**63, id="beyond exact floats"),
    ],
)
def test_reads_an_amount(written: str, amount: float) -> None:
    assert quantity(written) == pytest.approx(amount, rel=1e-15)


@pytest.mark.parametrize("written", ["", "GB", "1GB", "1 Gi", "NaN", "inf", "1e", "0x10", "٣", "1.2.3"])
def test_refuses_what_is_none(written: str) -> None:
    with pytest.raises(ShapeError, match="quantity"):
        quantity(written)
