"""Several services behind one address."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web

from adapters.local.template import RoutePolicy
from autoscaler.domain.service import ServiceId, Slo

if TYPE_CHECKING:
    from tests.gateway.conftest import Gateway, Serve

pytestmark = pytest.mark.anyio

CHAT = RoutePolicy(service=ServiceId("chat"), models=("llama", "llama-long"), slo=Slo(ttft_s=60.0))
EMBED = RoutePolicy(service=ServiceId("embed"), models=("bge",), slo=Slo(e2e_s=60.0))


async def hello(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="hello")


@pytest.mark.parametrize(
    ("model", "named", "service"),
    [
        pytest.param("llama-long", None, "chat", id="model"),
        pytest.param("bge", None, "embed", id="other model"),
        pytest.param("bge", "chat", "chat", id="header"),
    ],
)
async def test_the_model_or_the_header_chooses(
    gateway: Gateway, serve: Serve, *, model: str, named: str | None, service: str
) -> None:
    headers = {"X-GPU-Autoscaler-Service": named} if named else {}
    async with aiohttp.ClientSession() as client, serve(hello) as chat, serve(hello) as embed:
        gateway.client.put_routes([CHAT, EMBED], [chat.endpoint(CHAT.service), embed.endpoint(EMBED.service)])
        before = {name: gateway.reading(name).arrivals for name in (CHAT.service, EMBED.service)}
        async with client.post(f"{gateway.url}/v1/completions", json={"model": model}, headers=headers) as answer:
            assert answer.status == 200
        assert [len(chat.requests), len(embed.requests)] == [service == "chat", service == "embed"]
        assert all("X-GPU-Autoscaler-Service" not in request.headers for request in chat.requests)
        after = {name: gateway.reading(name).arrivals for name in (CHAT.service, EMBED.service)}
        assert {name: after[name] - before[name] for name in after} == {
            "chat": service == "chat",
            "embed": service == "embed",
        }


async def test_an_unknown_model_is_answered_as_openai_does(
    gateway: Gateway, serve: Serve, client: aiohttp.ClientSession
) -> None:
    async with serve(hello) as chat:
        gateway.client.put_routes([CHAT, EMBED], [chat.endpoint(CHAT.service)])
        async with client.post(f"{gateway.url}/v1/completions", json={"model": "gpt"}) as answer:
            assert answer.status == 404
            assert (await answer.json())["error"] == {
                "message": "The model `gpt` does not exist. Models: llama, llama-long, bge.",
                "type": "invalid_request_error",
                "param": "model",
                "code": "model_not_found",
            }
        assert not chat.requests


async def test_models_are_listed_by_the_gateway(gateway: Gateway, serve: Serve, client: aiohttp.ClientSession) -> None:
    async def models() -> list[str]:
        async with client.get(f"{gateway.url}/v1/models") as answer:
            assert answer.status == 200
            return [model["id"] for model in (await answer.json())["data"]]

    async def own_list(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"data": [{"id": "the replica's"}]})

    async with serve(own_list) as chat:
        gateway.client.put_routes([CHAT, EMBED], [chat.endpoint(CHAT.service)])
        assert await models() == ["llama", "llama-long", "bge"]
        gateway.client.put_routes([CHAT], [])
        assert await models() == ["llama", "llama-long"]
        gateway.client.put_routes([CHAT], [chat.endpoint(CHAT.service)])
        assert await models() == ["the replica's"]


async def test_one_service_without_a_replica_does_not_hold_up_another(
    gateway: Gateway, serve: Serve, client: aiohttp.ClientSession
) -> None:
    async with serve(hello) as chat:
        gateway.client.put_routes([CHAT, EMBED], [chat.endpoint(CHAT.service)])
        waits = asyncio.create_task(embed(client, gateway.url))
        await gateway.until(EMBED.service, lambda reading: reading.waiting == 1)
        async with client.post(f"{gateway.url}/v1/completions", json={"model": "llama"}) as answer:
            assert answer.status == 200
        assert gateway.reading(EMBED.service).waiting == 1
        waits.cancel()


async def embed(client: aiohttp.ClientSession, url: str) -> None:
    async with client.post(f"{url}/v1/embeddings", json={"model": "bge"}):
        raise AssertionError("answered without a replica")


async def test_counts_of_a_service_that_returns_go_on(
    gateway: Gateway, serve: Serve, client: aiohttp.ClientSession
) -> None:
    async with serve(hello) as chat:
        gateway.client.put_routes([CHAT], [chat.endpoint(CHAT.service)])
        async with client.post(gateway.url) as answer:
            assert answer.status == 200
        before = gateway.reading(CHAT.service).arrivals
        gateway.client.put_routes([EMBED], [])
        assert list(gateway.client.readings(0.0)) == ["embed"]
        gateway.client.put_routes([CHAT], [chat.endpoint(CHAT.service)])
        assert gateway.reading(CHAT.service).arrivals == before


async def test_before_the_first_routes(own_gateway: Gateway, client: aiohttp.ClientSession) -> None:
    async with client.post(f"{own_gateway.url}/v1/completions") as answer:
        assert answer.status == 503
        assert "Retry-After" in answer.headers
    async with client.get(f"{own_gateway.url}/-/gpu-autoscaler/health") as answer:
        assert (answer.status, await answer.json()) == (200, {"status": "ok"})
