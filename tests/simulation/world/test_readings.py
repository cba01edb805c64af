"""A reading made of a simulated replica equals the one that is parsed from a text page with the same numbers."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from adapters.engines.page_reader import PageReader
from adapters.simulation.batch_fleet import BatchFleet, BatchServer
from adapters.simulation.clock import VirtualClock
from adapters.simulation.engine_fleet import EngineFleet
from adapters.simulation.faults import Fault, FaultKind
from adapters.simulation.faulty_ports import FaultySource
from adapters.simulation.fluid_fleet import FluidFleet, FluidModel
from adapters.simulation.readings import batch_reading, token_reading
from adapters.simulation.requests import Requests
from adapters.simulation.serving import ReplicaPage, ServingFleet
from adapters.simulation.step_times import EngineShape, StepTimes
from autoscaler.domain.cluster import ClusterSnapshot
from autoscaler.domain.reading import EngineReading, Histogram, Observations, Unknown, UnknownReason
from autoscaler.domain.service import Engine, Slo
from loadtests.emulator.page import with_not_a_number
from tests.simulation.world.pages import triton_page, vllm_page

STARTED_S, AT_S = 1000.0, 1042.0


def some_requests(rate_rps: float, duration_s: float) -> Requests:
    random = np.random.default_rng(4)
    at_s = np.sort(random.uniform(0, duration_s, round(rate_rps * duration_s)))
    prompts, outputs = random.integers(1, 900, len(at_s)), random.integers(1, 300, len(at_s))
    return Requests(
        at_s=at_s,
        prompt_tokens=prompts,
        output_tokens=outputs,
        cached_tokens=np.zeros(len(at_s), dtype=np.int64),
        duration_s=duration_s,
    )


def page_of(fleet: ServingFleet, until_s: float) -> ReplicaPage:
    replica = fleet.add()
    fleet.open(replica)
    fleet.advance(until_s)
    return fleet.page(replica)


def engines(rate_rps: float) -> EngineFleet:
    times = StepTimes.of_seconds(c_s=0.012, d_s=0.0002, e_s=1e-7, a_s=2e-5)
    shape = EngineShape(kv_tokens=20_000, chunk_tokens=2048, max_num_seqs=64)
    return EngineFleet(some_requests(rate_rps, 60.0), times=times, shape=shape, slo=Slo(ttft_s=1.0, itl_s=0.05))


def fluid(rate_rps: int) -> FluidFleet:
    return FluidFleet(np.full(60, rate_rps), FluidModel(capacity_rps=7.3, service_s=4.0))


@pytest.mark.parametrize(
    "fleet",
    [
        pytest.param(engines(0.5), id="engine with room"),
        pytest.param(engines(40.0), id="engine that preempts"),
        pytest.param(fluid(5), id="fluid with room"),
        pytest.param(fluid(11), id="fluid with a queue"),
    ],
)
def test_token_engine(fleet: ServingFleet) -> None:
    page = page_of(fleet, 42.0)
    made = token_reading(page, replica="r", at_s=AT_S, started_s=STARTED_S, alive_s=42.0)
    text = vllm_page(page, started_s=STARTED_S, cpu_s=42.0)
    assert_same(made, PageReader().read(text, replica="r", at_s=AT_S))
    assert page.arrived > 0


def test_batch_server() -> None:
    server = BatchServer(base_s=0.05, per_request_s=0.01, max_batch=8)
    fleet = BatchFleet(some_requests(90.0, 30.0), server=server, slo=Slo(e2e_s=1.0))
    page = page_of(fleet, 20.0)
    made = batch_reading(page, replica="r", at_s=AT_S, alive_s=20.0)
    read = PageReader().read(triton_page(page), replica="r", at_s=AT_S)
    assert isinstance(read, EngineReading)
    # A machine's CPU and memory, which move a Triton page, have no model here.
    assert_same(made, replace(read, heartbeat=made.heartbeat))
    assert page.waiting > 0


def test_page_of_nan() -> None:
    """The fault leaves of a reading what a page whose values are NaN leaves."""
    page = page_of(engines(5.0), 42.0)
    clock = VirtualClock()
    made = token_reading(page, replica="r", at_s=AT_S, started_s=STARTED_S, alive_s=42.0)

    class Source:
        def read(self, snapshot: ClusterSnapshot) -> Observations:
            return Observations(at_s=AT_S, engines={"r": made}, gateways={})

    fault = Fault(kind=FaultKind.NOT_A_NUMBER, from_s=0.0, until_s=10.0)
    nothing = ClusterSnapshot(at_s=AT_S, devices=(), replicas=(), targets=())
    broken = FaultySource(Source(), clock=clock, faults=[fault]).read(nothing).engines["r"]
    text = with_not_a_number(vllm_page(page, started_s=STARTED_S, cpu_s=42.0))
    read = PageReader().read(text, replica="r", at_s=AT_S)
    assert isinstance(broken, EngineReading)
    assert isinstance(read, EngineReading)
    for name in ("arrivals_stock", "waiting", "running", "completed", "ttft", "itl", "e2e", "kv_fraction"):
        for reading in (broken, read):
            value = getattr(reading, name)
            assert isinstance(value, Unknown), name
            assert value.reason is UnknownReason.NOT_A_NUMBER, name
    assert broken.started_s == read.started_s


def assert_same(made: EngineReading, read: EngineReading | Unknown) -> None:
    """Every signal, but for why it is unknown, and what only text has: names of series."""
    assert isinstance(read, EngineReading), read
    for each in fields(EngineReading):
        if each.name in ("sources", "warnings"):
            continue
        expected, got = getattr(read, each.name), getattr(made, each.name)
        if isinstance(expected, Unknown):
            assert isinstance(got, Unknown), each.name
        elif read.engine == Engine.TRITON and isinstance(expected, Histogram):
            # Times go over its page in microseconds.
            assert (got.bounds, got.count, got.total) == ((), expected.count, pytest.approx(expected.total))
        elif each.name == "exec_sum_s":
            assert got == pytest.approx(expected)
        else:
            assert got == expected, each.name
