"""A real Triton's statistics: the same executions as its page's, with the time of each; and servers without them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from tritonclient.http import InferenceServerClient, InferInput

from adapters.engines.pods import PodScraper
from adapters.engines.triton_statistics import WithStatistics
from adapters.wallclock import WallClock
from autoscaler.domain.cluster import ClusterSnapshot, Phase, Replica
from autoscaler.domain.reading import EngineReading, Measured, is_known
from autoscaler.domain.service import Engine, ServiceId, StatisticsApi, StatisticsProtocol
from loadtests.triton_server import INPUT
from tests.engines.conftest import RunningTriton

pytestmark = pytest.mark.engines

SERVICE = ServiceId("timed")
PROTOCOLS = [pytest.param(each, id=each.value) for each in StatisticsProtocol]


@pytest.fixture
def replica(triton: RunningTriton) -> Replica:
    return Replica(
        name="timed-1",
        service=SERVICE,
        variant="default",
        phase=Phase.READY,
        created_s=0.0,
        metrics_url=f"http://127.0.0.1:{triton.metrics_port}/metrics",
        http_port=triton.http_port,
        grpc_port=triton.grpc_port,
    )


@pytest.fixture
def closed_port() -> Iterator[int]:
    """One that nobody listens on."""
    with closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


def read(replicas: tuple[Replica, ...], protocol: StatisticsProtocol | None, *, port: int = 1) -> list[EngineReading]:
    """As the controller reads them; with the page alone where no protocol is named."""
    apis = {} if protocol is None else {SERVICE: StatisticsApi(protocol=protocol, port=port)}
    clock = WallClock()
    snapshot = ClusterSnapshot(at_s=clock.now_s(), devices=(), replicas=replicas, targets=())
    with PodScraper(clock=clock, engines={SERVICE: Engine.TRITON}) as pages:
        source = WithStatistics(pages, apis=apis)
        try:
            found = [source.read(snapshot).engines[each.name] for each in replicas]
        finally:
            source.close()
    readings = [each for each in found if isinstance(each, EngineReading)]
    assert len(readings) == len(replicas), found
    return readings


def infer(triton: RunningTriton, *, items: int, requests: int) -> None:
    """So many requests of so many items each, all at once."""

    def ask(_: int) -> None:
        with InferenceServerClient(f"127.0.0.1:{triton.http_port}") as client:
            tensor = InferInput(INPUT, [items, 1], "FP32")
            tensor.set_data_from_numpy(np.ones((items, 1), dtype=np.float32))
            client.infer(triton.model.name, [tensor])

    with ThreadPoolExecutor(requests) as clients:
        list(clients.map(ask, range(requests)))


def known(value: Measured) -> float:
    assert is_known(value), value
    return value


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_counts_are_the_pages(triton: RunningTriton, replica: Replica, protocol: StatisticsProtocol) -> None:
    infer(triton, items=1, requests=20)
    [page], [completed] = read((replica,), None), read((replica,), protocol)
    assert known(page.exec_count) > 0
    assert (completed.exec_count, completed.exec_items) == (page.exec_count, page.exec_items)
    assert completed.arrivals_stock == page.arrivals_stock
    assert completed.warnings == page.warnings
    assert not is_known(page.exec_time_s)


@pytest.mark.parametrize("items", [1, 3, 8])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_time_is_that_of_the_models_batch(
    triton: RunningTriton, replica: Replica, protocol: StatisticsProtocol, items: int
) -> None:
    """alpha + beta x batch is slept, so no execution is shorter; a loaded machine may only add to it."""
    [before] = read((replica,), protocol)
    for _ in range(4):
        infer(triton, items=items, requests=1)
    [after] = read((replica,), protocol)
    slept_s = 4 * (triton.model.alpha_s + triton.model.beta_s * items)
    assert known(after.exec_count) - known(before.exec_count) == 4
    assert known(after.exec_items) - known(before.exec_items) == 4 * items
    took_s = known(after.exec_time_s) - known(before.exec_time_s)
    assert took_s >= slept_s
    counted_by_request_s = known(after.exec_sum_s) - known(before.exec_sum_s)
    assert took_s == pytest.approx(counted_by_request_s, rel=0.01)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_over_executions_each_counts_once_and_over_requests_once_for_each_request(
    triton: RunningTriton, replica: Replica, protocol: StatisticsProtocol
) -> None:
    [before] = read((replica,), protocol)
    infer(triton, items=1, requests=24)
    [after] = read((replica,), protocol)
    executions = known(after.exec_count) - known(before.exec_count)
    took_s = known(after.exec_time_s) - known(before.exec_time_s)
    assert executions < 24, "the load was too light to make batches"
    assert took_s >= executions * triton.model.alpha_s + 24 * triton.model.beta_s
    assert took_s < known(after.exec_sum_s) - known(before.exec_sum_s)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_server_without_statistics_keeps_its_page_and_the_others_keep_theirs(
    triton: RunningTriton, replica: Replica, protocol: StatisticsProtocol, closed_port: int
) -> None:
    infer(triton, items=1, requests=1)
    mute = replace(replica, name="timed-2", http_port=closed_port, grpc_port=closed_port)
    told, untold = read((replica, mute), protocol)
    assert is_known(told.exec_time_s)
    assert not is_known(untold.exec_time_s)
    assert untold.exec_count == told.exec_count
    assert untold.arrivals_stock == told.arrivals_stock
    assert [warning for warning in untold.warnings if warning.startswith("no statistics")] != []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_without_ports_of_its_own_the_configured_port_of_its_host_is_asked(
    triton: RunningTriton, replica: Replica, protocol: StatisticsProtocol
) -> None:
    port = triton.grpc_port if protocol is StatisticsProtocol.GRPC else triton.http_port
    [reading] = read((replace(replica, http_port=None, grpc_port=None),), protocol, port=port)
    assert is_known(reading.exec_time_s)
