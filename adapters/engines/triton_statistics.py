"""Triton's statistics API: the time of its executions by batch size, which its metrics page does not tell.

The page adds an execution's time once for each request of its batch; ``batch_stats`` has it once for each execution
(``ModelStatistics`` in triton-inference-server/common, ``protobuf/grpc_service.proto``; over HTTP, ``docs/protocol/
extension_statistics.md`` of triton-inference-server/server). So the mean batch and the mean time come from the same
executions, and alpha + beta x batch is read off without the bias towards large batches.

There is no count of waiting requests in it, so it completes the page and never takes its place.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol
from urllib.parse import urlsplit

from adapters.loop_thread import LoopThread
from autoscaler.domain.cluster import ClusterSnapshot, Replica
from autoscaler.domain.reading import EngineReading, Observations, Unknown, UnknownReason
from autoscaler.domain.service import ServiceId, StatisticsApi, StatisticsProtocol
from autoscaler.ports import MetricsSource

_TIMEOUT_S = 1.0
_NANOSECONDS = 1e9
_MOST = 2**64 - 1  # what protobuf's counters hold
_PARTS = ("compute_input", "compute_infer", "compute_output")


@dataclass(frozen=True, slots=True, kw_only=True)
class Executions:
    """All executions since the server's start: how many, of how many items, and their time, each counted once."""

    count: float
    items: float
    time_s: float


class _Client(Protocol):
    """What both of tritonclient's asynchronous clients have."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Asking:
    """An open client and how it is asked. ``failures``: what it raises where its server does not answer well."""

    address: str
    client: _Client
    ask: Callable[[], Awaitable[object]]
    failures: tuple[type[Exception], ...]


def executions_of(answer: object) -> Executions | Unknown:
    """All models' executions, from an answer in the JSON form that both protocols have.

    Over gRPC 64-bit integers are text, and what is zero is left out.
    """
    count = items = time_ns = 0
    try:
        for model in _list(answer, "model_stats"):
            for batch in _list(model, "batch_stats"):
                executions = _number(_mapping(batch, "compute_infer"), "count")
                count += executions
                items += executions * _number(batch, "batch_size")
                time_ns += sum(_number(_mapping(batch, part), "ns") for part in _PARTS)
    except (TypeError, ValueError) as error:
        return Unknown(UnknownReason.MALFORMED_PAGE, f"statistics: {error}"[:200])
    if min(count, items, time_ns) < 0:
        return Unknown(UnknownReason.OUT_OF_RANGE, "statistics below zero")
    if max(count, items, time_ns) > _MOST:
        return Unknown(UnknownReason.OUT_OF_RANGE, "statistics above what 64 bits hold")
    return Executions(count=float(count), items=float(items), time_s=time_ns / _NANOSECONDS)


class WithStatistics:
    """MetricsSource: another's readings, completed by the statistics of the servers of the services that have them.

    All servers are asked at once, within ``timeout_s``. A server that does not answer keeps what its page says, and
    its reading a warning; nobody else is touched.
    """

    def __init__(
        self, pages: MetricsSource, *, apis: Mapping[ServiceId, StatisticsApi], timeout_s: float = _TIMEOUT_S
    ) -> None:
        """``apis``: by service, looked at anew in each round."""
        self._pages = pages
        self._apis = apis
        self._timeout_s = timeout_s
        self._open: dict[str, _Asking] = {}
        self._loop: LoopThread | None = None

    def read(self, snapshot: ClusterSnapshot) -> Observations:
        """One round."""
        observations = self._pages.read(snapshot)
        wanted = {
            replica.name: address
            for replica in snapshot.replicas
            if isinstance(observations.engines.get(replica.name), EngineReading)
            and (address := self._address(replica)) is not None
        }
        if not wanted and not self._open:
            return observations
        self._loop = self._loop or LoopThread("statistics")
        answers = self._loop.begin(self._round(wanted)).result()
        engines = dict(observations.engines)
        for name, answer in answers.items():
            page = engines[name]
            if isinstance(page, EngineReading):
                engines[name] = _completed(page, answer, wanted[name][0])
        return replace(observations, engines=engines)

    def close(self) -> None:
        """Drop the connections and stop the thread. Idempotent; no read may follow."""
        if self._loop is not None:
            self._loop.close(lambda: self._keep_only({}))

    def _address(self, replica: Replica) -> tuple[StatisticsProtocol, str] | None:
        """Where this replica's statistics are: on the ports that it was given, or on the configured one of its host."""
        api = self._apis.get(replica.service)
        host = urlsplit(replica.metrics_url or "").hostname
        if api is None or host is None:
            return None
        own = replica.grpc_port if api.protocol is StatisticsProtocol.GRPC else replica.http_port
        name = f"[{host}]" if ":" in host else host
        return api.protocol, f"{name}:{own or api.port}"

    async def _round(self, wanted: Mapping[str, tuple[StatisticsProtocol, str]]) -> dict[str, Executions | Unknown]:
        await self._keep_only(wanted)
        answers = await asyncio.gather(*(self._asked(name, *address) for name, address in wanted.items()))
        return dict(zip(wanted, answers, strict=True))

    async def _asked(self, name: str, protocol: StatisticsProtocol, address: str) -> Executions | Unknown:
        try:
            asking = self._open.get(name) or _opened(protocol, address)
        except (ImportError, RuntimeError) as error:  # tritonclient's own words for an extra of it that lacks
            return Unknown(UnknownReason.NOT_EXPORTED, f'the extra "triton" is not installed: {error}'[:200])
        self._open[name] = asking
        try:
            async with asyncio.timeout(self._timeout_s):
                return executions_of(await asking.ask())
        except TimeoutError:
            why = Unknown(UnknownReason.TIMEOUT, f"no statistics within {self._timeout_s:g} s")
        except asking.failures as error:
            why = Unknown(UnknownReason.UNREACHABLE, f"{type(error).__name__}: {error}"[:200])
        await self._drop(name)  # gRPC would wait longer and longer before it tries a server again
        return why

    async def _keep_only(self, wanted: Mapping[str, tuple[StatisticsProtocol, str]]) -> None:
        """Close the clients of servers that are gone, or elsewhere."""
        for name in [name for name, asking in self._open.items() if wanted.get(name, ("", ""))[1] != asking.address]:
            await self._drop(name)

    async def _drop(self, name: str) -> None:
        asking = self._open.pop(name, None)
        if asking is not None:
            with contextlib.suppress(TimeoutError, *asking.failures):  # what matters is that it is not used again
                await asyncio.wait_for(asking.client.close(), self._timeout_s)


def _opened(protocol: StatisticsProtocol, address: str) -> _Asking:
    """A client for that address; nothing is connected yet. Raises ImportError or RuntimeError without the extra."""
    from tritonclient.utils import InferenceServerException  # noqa: PLC0415  (an extra of its own)

    if protocol is StatisticsProtocol.GRPC:
        from tritonclient.grpc import aio as over_grpc  # noqa: PLC0415  (an extra of its own)

        client = over_grpc.InferenceServerClient(address)
        return _Asking(
            address,
            client,
            lambda: client.get_inference_statistics(as_json=True),
            (InferenceServerException, OSError, ValueError),  # the first for all that gRPC itself raises
        )
    import aiohttp  # noqa: PLC0415  (only for who asks over it)
    from tritonclient.http import aio as over_http  # noqa: PLC0415  (an extra of its own)

    plain = over_http.InferenceServerClient(address)
    # The last two: an answer that is no JSON, or too deep a one.
    failures = (InferenceServerException, aiohttp.ClientError, OSError, ValueError, RecursionError)
    return _Asking(address, plain, plain.get_inference_statistics, failures)


def _completed(page: EngineReading, answer: Executions | Unknown, protocol: StatisticsProtocol) -> EngineReading:
    if isinstance(answer, Unknown):
        return replace(page, warnings=(*page.warnings, f"no statistics, execution times are the page's: {answer}"))
    return replace(
        page,
        exec_count=answer.count,
        exec_items=answer.items,
        exec_time_s=answer.time_s,
        sources=(*page.sources, ("exec_time_s", f"statistics over {protocol}: batch_stats")),
    )


def _list(value: object, key: str) -> list[object]:
    found = _field(value, key, [])
    if not isinstance(found, list):
        raise TypeError(f"{key} is no list")
    return found


def _mapping(value: object, key: str) -> object:
    return _field(value, key, {})


def _number(value: object, key: str) -> int:
    found = _field(value, key, 0)
    if isinstance(found, bool) or not isinstance(found, int | str):
        raise TypeError(f"{key} is no whole number")
    return int(found)


def _field(value: object, key: str, default: object) -> object:
    if not isinstance(value, Mapping):
        raise TypeError(f"no mapping around {key}")
    return value.get(key, default)
