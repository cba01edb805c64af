"""Pages of servers some of which hang: one that did not answer in time is no longer waited for until it answers.

It is asked on beside, one request after the other, each with all the time that the first one had. So a server that
hangs delays one round alone; that it has recovered is noticed at the round after its first answer, that is within its
time limit and one round. Meanwhile it is Unknown, as in the round in which it was waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

import aiohttp

from adapters.engines.fetched import FetchedPage
from adapters.engines.fetching import fetch_page, open_session
from autoscaler.domain.reading import Unknown, UnknownReason

# Long enough for a page that comes at once, so that it counts in the same round.
_GRACE_S = 0.1


@dataclass(slots=True)
class _Hung:
    """A server that hung. ``asking``: the request that is under way."""

    asking: asyncio.Task[FetchedPage | Unknown] | None = None


class PatientFetcher:
    """To be used in one event loop. ``close`` it there."""

    def __init__(self, *, timeout_s: float, max_bytes: int, max_connections: int) -> None:
        """``max_connections``: at once, and half as many again to servers that hang, which are asked in turn."""
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        beside = max(1, max_connections // 2)
        self._max_connections = max_connections + beside
        self._turns = asyncio.Semaphore(beside)
        self._hung: dict[str, _Hung] = {}
        self._session: aiohttp.ClientSession | None = None

    async def fetch(self, url: str) -> FetchedPage | Unknown:
        """As ``fetch_page`` says, but that it is over at once where the last answer did not come in time."""
        hung = self._hung.get(url)
        if hung is None:
            page = await self._fetch(url)
            if _timed_out(page):
                self._hung[url] = _Hung()
            return page
        if hung.asking is None:
            hung.asking = asyncio.create_task(self._ask(url, hung))
        asking = hung.asking
        done, _ = await asyncio.wait({asking}, timeout=_GRACE_S)
        if done and not asking.cancelled():
            return asking.result()
        return Unknown(UnknownReason.TIMEOUT, f"no full answer within {self._timeout_s:g} s; it is asked again")

    def keep_only(self, urls: Collection[str]) -> None:
        """Forget which of the others hung, and ask them no more."""
        for url in self._hung.keys() - set(urls):
            asking = self._hung.pop(url).asking
            if asking is not None:
                asking.cancel()

    async def close(self) -> None:
        """End the questions that are open, and drop the connections."""
        asking = [hung.asking for hung in self._hung.values() if hung.asking is not None]
        for each in asking:
            each.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def _ask(self, url: str, hung: _Hung) -> FetchedPage | Unknown:
        try:
            async with self._turns:
                page = await self._fetch(url)
        finally:
            hung.asking = None
        if not _timed_out(page) and self._hung.get(url) is hung:
            del self._hung[url]
        return page

    async def _fetch(self, url: str) -> FetchedPage | Unknown:
        if self._session is None:
            self._session = open_session(max_connections=self._max_connections)
        return await fetch_page(self._session, url, timeout_s=self._timeout_s, max_bytes=self._max_bytes)


def _timed_out(page: FetchedPage | Unknown) -> bool:
    return isinstance(page, Unknown) and page.reason is UnknownReason.TIMEOUT
