"""One small server for the metrics pages of all pods of a test cluster: their addresses are all this machine's."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.scrape import PAGES, SCRAPES


class _Pages(asyncio.Protocol):
    """Answers every request with the same page, and hears nobody from elsewhere."""

    def __init__(self, page: bytes) -> None:
        self._answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(page) + page
        self._heard = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not str(transport.get_extra_info("sockname")[0]).startswith("127."):
            transport.abort()

    def data_received(self, data: bytes) -> None:
        self._heard += data
        while b"\r\n\r\n" in self._heard:
            _, _, self._heard = self._heard.partition(b"\r\n\r\n")
            self._transport.write(self._answer)


def _serve(listening: socket.socket) -> None:
    page = (SCRAPES / PAGES[0]).read_bytes()

    async def forever() -> None:
        server = await asyncio.get_running_loop().create_server(lambda: _Pages(page), sock=listening)
        await server.serve_forever()

    asyncio.run(forever())


@contextmanager
def live_pages() -> Iterator[int]:
    """A process that gives a recorded page of vLLM at every address of loopback; the port."""
    with socket.create_server(("0.0.0.0", 0), backlog=1024) as listening:
        process = multiprocessing.get_context("fork").Process(target=_serve, args=(listening,), daemon=True)
        process.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            process.kill()
            process.join()
