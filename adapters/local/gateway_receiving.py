"""Takes in a request whole: the model is in its body, and a replica that refuses must not cost the request."""

from __future__ import annotations

import asyncio

from aiohttp import HttpVersion11, web

from adapters.local.gateway_waiting import MemoryBudget

# A client that sends nothing more for so long has lost its connection, or is up to no good.
BODY_IDLE_S = 60.0


class BodyTooLargeError(Exception):
    """The body is longer than allowed."""


class BodyTooSlowError(Exception):
    """The client stopped sending in the middle of the body."""


class Body:
    """The bytes of one request, charged to the budget until released."""

    __slots__ = ("_budget", "_charged_bytes", "data")

    def __init__(self, budget: MemoryBudget) -> None:
        self.data = b""
        self._budget = budget
        self._charged_bytes = 0

    async def receive(self, request: web.BaseRequest, *, max_bytes: int) -> None:
        """Read it all. Raises BodyTooLargeError, BodyTooSlowError, OutOfMemoryBudgetError, or aiohttp's
        RequestPayloadError where it is malformed.
        """
        if not request.body_exists:
            return
        if request.content_length is not None and request.content_length > max_bytes:
            raise BodyTooLargeError
        await _tell_to_go_on(request)
        if request.content.is_eof():  # all of it is here
            self.data = await request.content.read()
            self._charge(len(self.data), max_bytes)
            return
        loop = asyncio.get_running_loop()
        pieces: list[bytes] = []
        try:
            async with asyncio.timeout(BODY_IDLE_S) as idle:
                while piece := await request.content.readany():
                    self._charge(len(piece), max_bytes)
                    pieces.append(piece)
                    idle.reschedule(loop.time() + BODY_IDLE_S)
        except TimeoutError:
            raise BodyTooSlowError from None
        self.data = b"".join(pieces)

    def _charge(self, size_bytes: int, max_bytes: int) -> None:
        if self._charged_bytes + size_bytes > max_bytes:
            raise BodyTooLargeError
        self._budget.take(size_bytes)
        self._charged_bytes += size_bytes

    def release(self) -> None:
        """Forget the bytes."""
        self.data = b""
        self._budget.give_back(self._charged_bytes)
        self._charged_bytes = 0


def target_of(request: web.BaseRequest) -> str:
    """Path and query as they were sent, escapes included; of "GET http://host/path", as proxies are asked, the path."""
    return request.raw_path if request.raw_path.startswith("/") else request.rel_url.raw_path_qs


async def _tell_to_go_on(request: web.BaseRequest) -> None:
    if request.version == HttpVersion11 and request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer itself has not begun
