"""A replica that is killed under load takes its own requests with it and no other."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

import aiohttp
import pytest

from adapters.local.routes import Endpoint

if TYPE_CHECKING:
    from adapters.local.template import RoutePolicy
    from tests.gateway.conftest import Gateway

pytestmark = pytest.mark.anyio

# A replica in a process of its own, which answers each request after 20 ms.
REPLICA = """
import asyncio
from aiohttp import web
async def answer(request):
    await asyncio.sleep(0.02)
    return web.Response()
async def main():
    server = await asyncio.get_running_loop().create_server(web.Server(answer), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""

CLIENTS = 20


async def test_a_killed_replica(gateway: Gateway, policy: RoutePolicy, client: aiohttp.ClientSession) -> None:
    with ExitStack() as ending:
        replicas, endpoints = [], []
        for number in range(2):
            replica = subprocess.Popen([sys.executable, "-c", REPLICA], stdout=subprocess.PIPE)
            ending.callback(replica.wait)
            ending.callback(replica.kill)
            assert replica.stdout is not None
            ending.callback(replica.stdout.close)
            url = f"http://127.0.0.1:{int(replica.stdout.readline())}"
            replicas.append(replica)
            endpoints.append(Endpoint(service=policy.service, replica=f"replica-{number}", url=url, accepting=True))
        gateway.route(policy, *endpoints)
        answered: Counter[int] = Counter()
        enough = asyncio.Event()

        async def keep_asking() -> None:
            while not enough.is_set():
                async with client.post(gateway.url) as answer:
                    answered[answer.status] += 1

        asking = [asyncio.create_task(keep_asking()) for _ in range(CLIENTS)]
        await gateway.until(policy.service, lambda reading: reading.finished >= 100)
        replicas[0].kill()
        replicas[0].wait()
        reading = gateway.reading(policy.service)
        goal = reading.finished + 200
        await gateway.until(policy.service, lambda reading: reading.finished >= goal)
        enough.set()
        await asyncio.gather(*asking)
    # The routes still name the dead one: nobody has told the gateway, and nobody had to.
    assert set(answered) <= {200, 502}
    assert answered[502] <= CLIENTS  # what was in flight when it died
    reading = await gateway.until(policy.service, lambda reading: reading.in_flight == 0)
    assert (reading.finished, reading.failed, reading.refused) == (answered[200], answered[502], 0)
