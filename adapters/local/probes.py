"""Asking replicas whether they are ready, all at once and without making anybody wait."""

from __future__ import annotations

import errno
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import aiohttp

from adapters.loop_thread import LoopThread


class Answer(StrEnum):
    """What came back. SILENT: neither an answer nor a refusal, as of a server that is busy or hangs."""

    READY = "Ready"
    NOT_YET = "NotYet"
    REFUSED = "Refused"
    SILENT = "Silent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """One answer, and in words what it was."""

    answer: Answer
    detail: str


class Probes(Protocol):
    """Readiness of replicas by URL."""

    def ask(self, url: str, *, patience_s: float) -> None:
        """Ask in the background, unless a question to this URL is open. Returns at once, raises nothing."""
        ...

    def take(self) -> Mapping[str, Probed]:
        """Answers by URL that came since the last call."""
        ...

    def close(self) -> None:
        """Drop open questions."""
        ...


class HttpProbes:
    """GET on an event loop in a thread of its own: one that hangs delays no other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[str] = set()
        self._answers: dict[str, Probed] = {}
        self._session: aiohttp.ClientSession | None = None
        self._loop = LoopThread("readiness")

    def ask(self, url: str, *, patience_s: float) -> None:
        """200 is ready; any other status is not yet, redirects included."""
        with self._lock:
            if url in self._open:
                return
            self._open.add(url)
        self._loop.begin(self._probe(url, patience_s))

    def take(self) -> Mapping[str, Probed]:
        """Answers since the last call."""
        with self._lock:
            answers, self._answers = self._answers, {}
        return answers

    def close(self) -> None:
        """End the thread; open questions stay without answer."""
        self._loop.close(self._end)

    async def _probe(self, url: str, patience_s: float) -> None:
        probed = await self._answer(url, patience_s)
        with self._lock:
            self._open.discard(url)
            self._answers[url] = probed

    async def _answer(self, url: str, patience_s: float) -> Probed:
        if self._session is None:
            connector = aiohttp.TCPConnector(force_close=True, limit=0)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False)
        timeout = aiohttp.ClientTimeout(total=patience_s)
        try:
            async with self._session.get(url, timeout=timeout, allow_redirects=False) as response:
                answer = Answer.READY if response.status == 200 else Answer.NOT_YET
                return Probed(answer=answer, detail=f"answered {response.status}")
        except TimeoutError:
            return Probed(answer=Answer.SILENT, detail=f"no answer within {patience_s:g} s")
        except aiohttp.ClientConnectorError as error:
            if error.errno == errno.ECONNREFUSED:
                return Probed(answer=Answer.REFUSED, detail="connection refused")
            return Probed(answer=Answer.SILENT, detail=f"no connection: {error}")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Probed(answer=Answer.SILENT, detail=f"no sensible answer: {type(error).__name__}")

    async def _end(self) -> None:
        if self._session is not None:
            await self._session.close()
