"""Devices looked at again and again: what broke, what is well, and exporters that answer or don't."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from adapters.gpus.watching import DeviceWatch
from adapters.kubernetes.gpu_exporters import ExporterPage
from adapters.local.device_health import with_health
from autoscaler.domain.cluster import Device
from autoscaler.domain.gpu_reading import DevicesRead, GpuReading
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.exporter_reading import ExporterReader
from tests.adapters_gpus.conftest import PAGES

NOBODY = Unknown(UnknownReason.NOT_EXPORTED)
DEADLINE_S = 10.0


class Machine:
    """GPUs with the last XID of each, and a clock."""

    def __init__(self, *xids: int) -> None:
        self.xids = list(xids)
        self.at_s = 100.0
        self.looked = threading.Event()

    def read(self, at_s: float) -> DevicesRead:
        self.looked.set()
        return DevicesRead(devices=tuple(self._gpu(index, xid, at_s) for index, xid in enumerate(self.xids)))

    def now_s(self) -> float:
        return self.at_s

    @staticmethod
    def _gpu(index: int, xid: int, at_s: float) -> GpuReading:
        return GpuReading(
            uuid=f"GPU-{index}",
            at_s=at_s,
            holder=NOBODY,
            index=str(index),
            xid=float(xid),
            recent_xids=(xid,) if xid else (),
        )


def test_devices_break_and_are_well_again() -> None:
    machine = Machine(0, 0)
    watch = DeviceWatch(machine.read, now_s=machine.now_s)
    mine = [Device(id="0"), Device(id="1")]
    seen = []
    for xid in (0, 79, 31, 0):
        machine.xids[1] = xid
        watch.look()
        machine.at_s += 15.0
        seen.append([device.healthy for device in with_health(mine, watch.broken())])
    assert seen == [[True, True], [True, False], [True, False], [True, True]]


def test_a_broken_device_says_what_is_wrong_and_an_unhealthy_one_stays_so() -> None:
    machine = Machine(48)
    watch = DeviceWatch(machine.read, now_s=machine.now_s)
    watch.look()
    first, second = with_health([Device(id="GPU-0"), Device(id="7", healthy=False)], watch.broken())
    assert (first.healthy, first.detail) == (False, "XID 48 (uncorrectable memory error (double bit ECC))")
    assert not second.healthy


def test_it_looks_by_itself_and_survives_a_look_that_fails() -> None:
    machine = Machine(0)
    fails = [True]

    def read(at_s: float) -> DevicesRead:
        if fails.pop() if fails else False:
            raise RuntimeError("the driver broke")
        return machine.read(at_s)

    with DeviceWatch(read, now_s=machine.now_s, period_s=0.01):
        assert machine.looked.wait(DEADLINE_S)


@pytest.fixture
def exporter() -> Iterator[str]:
    """A server of the MIG page; the address without a path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (PAGES / "dcgm_4.8_mig.prom").read_bytes()
            self.send_response(200 if self.path == "/metrics" else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    serving.join()
    server.server_close()


def test_exporters_tell_of_their_own_node_and_one_that_fails_costs_no_other(exporter: str) -> None:
    pages = [
        ExporterPage(node="node-a", url=f"{exporter}/metrics"),
        ExporterPage(node="node-b", url=f"{exporter}/elsewhere"),
    ]
    watch = DeviceWatch(ExporterReader(lambda: pages, timeout_s=DEADLINE_S).read, now_s=lambda: 100.0)
    watch.look()
    read = watch.latest()
    assert {(device.node, device.gi) for device in read.devices} == {("node-a", gi) for gi in (None, "1", "9", "10")}
    assert [str(each.key) for each in watch.broken()] == [
        "GPU-22222222-0000-0000-0000-000000000001 instance 9 on node-a"
    ]
    assert len(read.warnings) == 1
    assert "node-b" in read.warnings[0]
    assert "404" in read.warnings[0]


def test_without_exporters_nothing_is_known_and_nothing_is_wrong() -> None:
    assert ExporterReader(lambda: []).read(1.0) == DevicesRead()


def test_where_devices_are_shared_no_pod_has_them(exporter: str) -> None:
    page = ExporterPage(node="node-a", url=f"{exporter}/metrics", shared=True)
    devices = ExporterReader(lambda: [page], timeout_s=DEADLINE_S).read(1.0).devices
    assert len(devices) == 4
    assert all(isinstance(each.holder, Unknown) and each.holder.reason is UnknownReason.SHARED for each in devices)
