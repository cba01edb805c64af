"""The whole of it on this machine, with a real Prometheus between the replicas and the controller."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autoscaler.domain.cluster import Phase
from autoscaler.domain.reading import Unknown
from tests.adapters_prometheus.prometheus_process import RealPrometheus
from tests.cluster.processes import Processes
from tests.e2e.local_stack import Load, LocalStack, until

pytestmark = pytest.mark.cluster


@contextmanager
def told_of_replicas(stack: LocalStack, prometheus: RealPrometheus) -> Iterator[None]:
    """Somebody tells Prometheus of the replicas that there are, as service discovery does in a cluster."""
    ended = threading.Event()

    def tell() -> None:
        known: set[str] = set()
        while not ended.wait(0.1):
            there = [*stack.replicas(), *stack.replicas(phase=Phase.DRAINING)]
            addresses = {f"127.0.0.1:{stack.port_of(each)}" for each in there}
            if addresses != known:
                prometheus.know({address: {} for address in addresses})
                known = addresses

    teller = threading.Thread(target=tell)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


def covered(stack: LocalStack) -> float:
    demand = stack.latest().demand
    return 0.0 if isinstance(demand, Unknown) else demand.coverage


def test_overload_starts_replicas_and_quiet_stops_them(tmp_path: Path, processes: Processes) -> None:
    prometheus = RealPrometheus(processes, tmp_path, interval="250ms")
    prometheus.know({})
    prometheus.start()
    stack = LocalStack(tmp_path)
    try:
        stack.configure(prometheus={"url": prometheus.url}, intervalSeconds=1)
        stack.start()
        with told_of_replicas(stack, prometheus):
            stack.until_ready(1)
            with Load(stack.gateway_port, rps=18) as load:
                stack.until_ready(3)
            assert load.failed() == []
            until(lambda: stack.latest().desired == 1, what="back to one", within_s=120)
            until(lambda: covered(stack) == 1.0, what="all is read")
        assert "begins without a past" in stack.log()
        assert stack.stop_controller() == 0
    finally:
        stack.end()
