"""One small server for the metrics pages of many replicas: their addresses are all this machine's."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.changing_pages import PAGES, SCRAPES


class _Pages(asyncio.Protocol):
    """Answers the requests of a connection with one page after the other, and hears nobody from elsewhere.

    ``answers``: of several replicas, each in the order of its pages; the last octets of the address choose one.
    """

    def __init__(self, answers: Sequence[Sequence[bytes]]) -> None:
        self._answers = answers
        self._heard = b""
        self._asked = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        address = str(transport.get_extra_info("sockname")[0])
        if not address.startswith("127."):
            transport.abort()
            return
        third, fourth = address.split(".")[2:]
        self._mine = self._answers[(256 * int(third) + int(fourth)) % len(self._answers)]

    def data_received(self, data: bytes) -> None:
        self._heard += data
        while b"\r\n\r\n" in self._heard:
            _, _, self._heard = self._heard.partition(b"\r\n\r\n")
            self._transport.write(self._mine[self._asked % len(self._mine)])
            self._asked += 1


def _answer(page: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(page) + page


def _serve(listening: socket.socket, pages: Sequence[Sequence[bytes]]) -> None:
    answers = [[_answer(page) for page in one] for one in pages]

    async def forever() -> None:
        server = await asyncio.get_running_loop().create_server(lambda: _Pages(answers), sock=listening, backlog=1024)
        await server.serve_forever()

    asyncio.run(forever())


@contextmanager
def live_pages(pages: Sequence[Sequence[bytes]] = ()) -> Iterator[int]:
    """A process that gives metrics pages at every address of loopback; the port.

    ``pages``: those of several replicas, one after the other on each connection; the address 127.x.y.z is the replica's
    of number 256 y + z, modulo their number. Without any: a recorded page of vLLM, always the same.
    """
    given = pages or [[(SCRAPES / PAGES[0]).read_bytes()]]
    with socket.create_server(("0.0.0.0", 0), backlog=1024) as listening:
        process = multiprocessing.get_context("fork").Process(target=_serve, args=(listening, given), daemon=True)
        process.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            process.kill()
            process.join()
