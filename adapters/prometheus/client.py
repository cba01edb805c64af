"""Queries over HTTP, each bounded in time and size, and so many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus

import aiohttp

from adapters.http_failures import in_words
from adapters.prometheus.answers import RangedSeries, error_of, read_answer
from adapters.prometheus.credentials import Credentials, Shown
from adapters.prometheus.promql import duration
from adapters.prometheus.settings import PrometheusSettings
from autoscaler.domain.reading import Unknown, UnknownReason

_MAX_ERROR_BYTES = 64 * 1024


class QueryClient:
    """Asks one Prometheus. To be used in, and closed by, one event loop."""

    def __init__(self, settings: PrometheusSettings) -> None:
        self._settings = settings
        self._credentials = Credentials(settings)
        self._turns = asyncio.Semaphore(settings.max_connections)
        self._session: aiohttp.ClientSession | None = None

    async def series_now(self, expression: str) -> tuple[RangedSeries, ...] | Unknown:
        """The samples of a range selector that ends now, by the server's clock."""
        return await self._ask("query", {"query": expression})

    async def series_between(
        self, expression: str, *, start_s: float, end_s: float, step_s: float
    ) -> tuple[RangedSeries, ...] | Unknown:
        """An expression at every step of a time span, both ends included."""
        form = {"query": expression, "start": f"{start_s:.3f}", "end": f"{end_s:.3f}", "step": duration(step_s)}
        return await self._ask("query_range", form)

    async def close(self) -> None:
        """Drop the connections."""
        if self._session is not None:
            await self._session.close()

    async def _ask(self, verb: str, form: Mapping[str, str]) -> tuple[RangedSeries, ...] | Unknown:
        settings = self._settings
        shown = self._credentials.current()
        if isinstance(shown, Unknown):
            return shown
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=settings.max_connections),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),  # each query is bounded as a whole below
            )
        # Prometheus gives up by itself too. Thanos would else leave out what it can't reach.
        bounds = {"timeout": duration(settings.timeout_s), "partial_response": "false"}
        url = f"{settings.url.rstrip('/')}/api/v1/{verb}"
        try:
            async with self._turns, asyncio.timeout(settings.timeout_s):
                return await self._post(self._session, url, {**form, **bounds}, shown)
        except TimeoutError:
            return Unknown(UnknownReason.TIMEOUT, f"Prometheus gave no full answer within {settings.timeout_s:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Unknown(UnknownReason.UNREACHABLE, f"Prometheus: {in_words(error)}"[:300])

    async def _post(
        self,
        session: aiohttp.ClientSession,
        url: str,
        form: Mapping[str, str],
        shown: Shown,
    ) -> tuple[RangedSeries, ...] | Unknown:
        async with session.post(
            url,
            data=form,
            headers=shown.headers,
            ssl=shown.tls,
            server_hostname=self._settings.tls.server_name,
            allow_redirects=False,  # a secret is for the server that it was given for
        ) as response:
            good = response.status == HTTPStatus.OK
            limit = self._settings.max_answer_bytes if good else _MAX_ERROR_BYTES
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > limit:
                    response.close()
                    break
            if not good:
                where = response.headers.get("Location")
                said = f"to {where[:100]}, not followed" if where else error_of(bytes(body[:limit]))
                return Unknown(
                    UnknownReason.HTTP_ERROR, f"Prometheus: {response.status} {response.reason or ''} {said}".strip()
                )
            if len(body) > limit:
                return Unknown(UnknownReason.PAGE_TOO_LARGE, f"Prometheus: more than {limit} bytes in one answer")
        return read_answer(bytes(body))
