"""The key ``statistics`` of a service."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autoscaler.config import Settings
from autoscaler.domain.service import StatisticsApi, StatisticsProtocol

TRITON = """
services:
  - name: timed
    engine: {engine}
    slo: {{e2e: 2s}}
    command: tritonserver --http-port={{port}} --metrics-port={{metrics_port}}
    statistics: {statistics}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("{protocol: grpc}", StatisticsApi(protocol=StatisticsProtocol.GRPC, port=8001), id="gRPC"),
        pytest.param("{protocol: http}", StatisticsApi(protocol=StatisticsProtocol.HTTP, port=8000), id="HTTP"),
        pytest.param(
            "{protocol: http, port: 9000}", StatisticsApi(protocol=StatisticsProtocol.HTTP, port=9000), id="a port"
        ),
        pytest.param("null", None, id="none"),
    ],
)
def test_the_port_is_tritons_own_unless_given(
    read: Callable[[str], Settings], text: str, expected: StatisticsApi | None
) -> None:
    settings = read(TRITON.format(engine="triton", statistics=text))
    assert settings.services[0].statistics == expected
    assert settings.warnings == ()


@pytest.mark.parametrize("engine", ["vllm", "auto"])
def test_another_engine_has_none_which_is_warned_of(read: Callable[[str], Settings], engine: str) -> None:
    [warning] = read(TRITON.format(engine=engine, statistics="{protocol: grpc}")).warnings
    assert warning == f"timed: statistics has no effect, engine is {engine}: only Triton has them (engine: triton)"


@pytest.mark.parametrize(
    ("text", "key", "given"),
    [
        pytest.param("{protocol: rest}", "statistics.protocol", "rest", id="protocol"),
        pytest.param("{protocol: grpc, port: 0}", "statistics.port", "0", id="port 0"),
        pytest.param("{protocol: grpc, port: 65536}", "statistics.port", "65536", id="port too high"),
        pytest.param("{port: 8001}", "statistics", "protocol is missing", id="no protocol"),
    ],
)
def test_what_is_no_address_is_refused_by_key_and_value(
    problems: Callable[[str], list[str]], text: str, key: str, given: str
) -> None:
    [problem] = problems(TRITON.format(engine="triton", statistics=text))
    assert f"services[0].{key}" in problem
    assert given in problem
