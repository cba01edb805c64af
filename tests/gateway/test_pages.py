"""The gateway's own pages: what it counted, told to Prometheus, and how it is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from adapters.local.gateway_metrics import ServiceMeter
from adapters.local.gateway_page import page_of
from adapters.local.gateway_process import GatewayProcess
from adapters.local.template import GatewaySettings, RoutePolicy
from autoscaler.domain.service import ServiceId, Slo
from autoscaler.ports import RefusedError

if TYPE_CHECKING:
    from tests.gateway.conftest import Serve

pytestmark = pytest.mark.anyio


@contextmanager
def gateway(directory: Path, settings: GatewaySettings) -> Iterator[GatewayProcess]:
    process = GatewayProcess(directory=directory, settings=settings)
    try:
        yield process
    finally:
        process.stop(grace_s=0.0)


def samples(page: str) -> dict[str, float]:
    """By name and labels, as ``name{a=b}``."""
    return {
        f"{each.name}{{{','.join(f'{key}={value}' for key, value in sorted(each.labels.items()))}}}": each.value
        for family in text_string_to_metric_families(page)
        for each in family.samples
    }


async def test_what_was_counted_is_told_on_a_port_of_its_own(
    tmp_path: Path, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    async def hello(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="hello")

    with gateway(tmp_path, GatewaySettings(port=0, metrics_port=0)) as process:
        identity = process.ensure()
        own = f"http://127.0.0.1:{identity.metrics_port}"
        async with client.get(f"{own}/healthz") as answer:
            assert answer.status == 200
        async with client.get(f"{own}/readyz") as answer:
            assert (answer.status, await answer.text()) == (503, "its routes are not known yet\n")
        async with serve(hello) as upstream:
            process.client.put_routes([policy], [upstream.endpoint(policy.service)])
            async with client.get(f"{own}/readyz") as answer:
                assert answer.status == 200
            async with client.post(f"http://127.0.0.1:{identity.port}/", data=b"{}") as answer:
                assert await answer.text() == "hello"
            async with client.get(f"{own}/metrics") as answer:
                assert answer.content_type == "text/plain"
                told = samples(await answer.text())
            label = f"{{service={policy.service}}}"
            prefix = "gpu_autoscaler_gateway"
            assert told[f"{prefix}_requests_total{label}"] == told[f"{prefix}_finished_total{label}"] == 1
            assert told[f"{prefix}_judged_total{label}"] == told[f"{prefix}_within_slo_total{label}"] == 1
            assert told[f"{prefix}_e2e_seconds_count{label}"] == 1
            assert told[f"{prefix}_start_time_seconds{{}}"] == identity.started_s
            async with client.get(f"{own}/metrics", params={"name[]": f"{prefix}_waiting"}) as answer:
                assert samples(await answer.text()) == {f"{prefix}_waiting{label}": 0}
            async with client.get(f"http://127.0.0.1:{identity.port}/metrics") as answer:
                assert await answer.text() == "hello"  # the replica's, as ever


async def test_it_is_not_ready_while_it_ends_and_tells_its_counts_to_the_last(
    tmp_path: Path, policy: RoutePolicy, serve: Serve, client: aiohttp.ClientSession
) -> None:
    release, came = asyncio.Event(), asyncio.Event()

    async def held(_: web.BaseRequest) -> web.StreamResponse:
        came.set()
        await release.wait()
        return web.Response(text="hello")

    with gateway(tmp_path, GatewaySettings(port=0, metrics_port=0)) as process:
        identity = process.ensure()
        own = f"http://127.0.0.1:{identity.metrics_port}"
        async with serve(held) as upstream:
            process.client.put_routes([policy], [upstream.endpoint(policy.service)])
            asked = asyncio.create_task(client.post(f"http://127.0.0.1:{identity.port}/"))
            await came.wait()
            await asyncio.to_thread(process.client.stop, grace_s=60.0)
            async with client.get(f"{own}/readyz") as answer:
                assert (answer.status, await answer.text()) == (503, "it stops\n")
            async with client.get(f"{own}/metrics") as answer:
                told = samples(await answer.text())
            assert told[f"gpu_autoscaler_gateway_in_flight{{service={policy.service}}}"] == 1
            release.set()
            async with await asked as answer:
                assert await answer.text() == "hello"


def test_a_port_that_is_taken_is_named_and_costs_no_gateway(tmp_path: Path, free_port: int) -> None:
    with gateway(tmp_path, GatewaySettings(port=0, metrics_port=0)) as process:
        before = process.ensure()
        assert before.metrics_port is not None
        process.settings = replace(process.settings, metrics_port=before.port)
        with pytest.raises(RefusedError, match=r"set gateway\.metricsPort to a free port"):
            process.ensure()
        process.settings = replace(process.settings, metrics_port=free_port)
        assert process.ensure().metrics_port == free_port


@given(
    spans_s=st.lists(st.floats(min_value=0.0, max_value=1e4), max_size=20),
    service=st.text(max_size=20),
    slo_s=st.floats(min_value=1e-6, max_value=1e5),
)
def test_the_page_tells_each_number_as_it_is(spans_s: list[float], service: str, slo_s: float) -> None:
    meter = ServiceMeter(Slo(e2e_s=slo_s))
    for span_s in spans_s:
        exchange = meter.arrive(0.0)
        exchange.begins(status=200, media_type="application/json")
        exchange.finish(span_s)
    reading = meter.reading(ServiceId(service), started_s=1.5, at_s=0.0, waiting=3)
    (family,) = [
        family
        for family in text_string_to_metric_families(page_of([reading], started_s=1.5).decode())
        if family.name == "gpu_autoscaler_gateway_e2e_seconds"
    ]
    buckets = [each for each in family.samples if each.name.endswith("_bucket")]
    assert {each.labels["service"] for each in buckets} == {service}
    assert [float(each.labels["le"]) for each in buckets] == [*reading.e2e.bounds, float("inf")]
    assert [each.value for each in buckets] == [*reading.e2e.counts, reading.e2e.count]
    assert [each.value for each in family.samples if each.name.endswith("_sum")] == [reading.e2e.total]
