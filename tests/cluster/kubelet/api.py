"""The kubelet's side of the API server: requests that may fail, and objects followed through every outage."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

Json = dict[str, Any]
MERGE = "application/merge-patch+json"
_PAUSE_S = 0.3
_CONNECTIONS = 32


class RefusedError(Exception):
    """The API server answered with an error status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status} {text}")
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """Whom to tell: of an object as it is now, and of the uid of one that is gone."""

    seen: Callable[[Json], None]
    gone: Callable[[str], None]


# What an API server that is away, hangs up or is overloaded makes of a request.
AWAY = (aiohttp.ClientError, OSError, TimeoutError, RefusedError)


class KubeApi:
    """One API server. ``close`` at the end."""

    def __init__(self, server: str, context: ssl.SSLContext) -> None:
        self._session = aiohttp.ClientSession(
            server,
            connector=aiohttp.TCPConnector(ssl=context, limit=_CONNECTIONS),
            timeout=aiohttp.ClientTimeout(total=30),
            read_bufsize=2**22,
        )

    async def close(self) -> None:
        """Give back the connections."""
        await self._session.close()

    async def request(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json"
    ) -> Json:
        """One request; answers its JSON. Raises RefusedError, aiohttp.ClientError or TimeoutError."""
        payload = None if body is None else json.dumps(body)
        async with self._session.request(
            method, path, data=payload, headers={"Content-Type": content_type}
        ) as response:
            text = await response.text()
            if response.status >= 400:
                raise RefusedError(response.status, text)
            answer: Json = json.loads(text)
            return answer

    async def insist(self, method: str, path: str, body: object, *, content_type: str = "application/json") -> None:
        """Repeat a request until it is answered; gone (404) and changed by others (409) count as answers."""
        while True:
            try:
                await self.request(method, path, body, content_type=content_type)
            except RefusedError as error:
                if error.status in (404, 409):
                    return
                print(f"{method} {path}: {error}", file=sys.stderr)
            except AWAY:
                pass
            else:
                return
            await asyncio.sleep(_PAUSE_S)

    async def follow(self, path: str, query: Mapping[str, str], observer: Observer) -> None:
        """Tell the observer of every object as it is and as it changes, and of each that goes; for ever."""
        known: set[str] = set()
        while True:
            try:
                whole = await self._list(path, query)
                present = {each["metadata"]["uid"] for each in whole["items"]}
                for uid in known - present:
                    observer.gone(uid)
                for each in whole["items"]:
                    observer.seen(each)
                known = present
                await self._watch(
                    path, {**query, "resourceVersion": whole["metadata"]["resourceVersion"]}, known, observer
                )
            except AWAY:
                await asyncio.sleep(_PAUSE_S)

    async def _list(self, path: str, query: Mapping[str, str]) -> Json:
        async with self._session.get(path, params=query) as response:
            if response.status >= 400:
                raise RefusedError(response.status, await response.text())
            whole: Json = await response.json()
            return whole

    async def _watch(self, path: str, query: Mapping[str, str], known: set[str], observer: Observer) -> None:
        asked = {**query, "watch": "1", "allowWatchBookmarks": "true"}
        async with self._session.get(path, params=asked, timeout=aiohttp.ClientTimeout(total=None)) as response:
            if response.status >= 400:
                raise RefusedError(response.status, await response.text())
            async for line in response.content:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                if event["type"] == "BOOKMARK":
                    continue
                uid = event["object"]["metadata"]["uid"]
                if event["type"] == "DELETED":
                    known.discard(uid)
                    observer.gone(uid)
                else:
                    known.add(uid)
                    observer.seen(event["object"])
