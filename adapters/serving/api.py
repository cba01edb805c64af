"""The HTTP API: liveness, readiness, metrics, services with their decisions, live updates, and the dashboard."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from adapters.serving.answers import answer, compressed, failure
from adapters.serving.auth import ApiSettings, Gatekeeper
from adapters.serving.events import Streams
from adapters.serving.guard import Guard
from adapters.serving.metrics import registry_of
from adapters.serving.pages import dashboard_page, static_file
from adapters.serving.store import DecisionBoard, DecisionHistory, Entry
from adapters.serving.targets import add_targets
from adapters.serving.views import DecisionList, TimelineView, age_of, detail_of, list_of, summary_of
from autoscaler.domain.gpu_reading import OwnedDevice
from autoscaler.domain.service import ServiceId
from autoscaler.ports import PortError, Publications

_MOST_DECISIONS = 1000
_ABOUT = (
    "Read-only. Every answer carries `at_s` (seconds since the epoch), `age_s` and `stale`. A value that is not known "
    'is `{"kind": "Unknown", "reason": ..., "detail": ...}`, never 0. Errors are `{"error": {"kind", "message"}}`. '
    "The fields are described in docs/api.md."
)

Since = Annotated[
    float, Query(description="Seconds since the epoch; 0: from the beginning.", ge=0, allow_inf_nan=False)
]
Until = Annotated[float | None, Query(description="Seconds since the epoch; left out: now.", ge=0, allow_inf_nan=False)]
Limit = Annotated[int, Query(description="At most so many, the newest.", ge=1, le=_MOST_DECISIONS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """The application, and its open streams, which have to be closed before a server can stop."""

    app: ASGIApp
    streams: Streams


def create_app(
    *,
    board: DecisionBoard,
    history: DecisionHistory,
    settings: ApiSettings,
    now_s: Callable[[], float],
    version: str,
    publications: Publications | None = None,
    devices: Callable[[], Sequence[OwnedDevice]] | None = None,
    certificates: Mapping[str, Path] | None = None,
) -> Api:
    """The whole API over a board; ``history`` answers for the past (the board itself may, for the latest alone).

    ``publications``: what is told to others, where there is such a thing. ``devices``: those whose metrics are shown.
    ``certificates``: files of those that the other servers of this process show, by server.
    """
    streams = Streams(board, now_s=now_s)
    app = FastAPI(title="GPU Autoscaler", version=version, description=_ABOUT, docs_url=None, redoc_url=None)
    _add_errors(app)
    _add_probes(app, board, publications, now_s)
    _add_metrics(app, registry_of(board, now_s=now_s, version=version, devices=devices, certificates=certificates))
    _add_services(app, board, now_s)
    _add_history(app, board, history, now_s)
    _add_service(app, board, now_s)
    _add_events(app, streams)
    if publications is not None:
        add_targets(app, publications, now_s)
    _add_dashboard(app)
    return Api(app=Guard(app, gatekeeper=Gatekeeper(settings)), streams=streams)


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> Response:
        kind = HTTPStatus(error.status_code).phrase.replace(" ", "")
        return failure(error.status_code, kind, str(error.detail), headers=error.headers)

    @app.exception_handler(RequestValidationError)
    async def wrong_parameter(_: Request, error: RequestValidationError) -> Response:
        texts = [f"{fault['loc'][-1]}: {fault['msg']}, got {fault['input']!r}" for fault in error.errors()]
        return failure(422, "WrongParameter", "; ".join(texts))


def _add_probes(
    app: FastAPI, board: DecisionBoard, publications: Publications | None, now_s: Callable[[], float]
) -> None:
    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", summary="The process lives")
    async def healthz(request: Request) -> Response:
        return answer(request, {"status": "alive"})

    @app.head("/readyz", include_in_schema=False)
    @app.get("/readyz", summary="A round of the control loop ended recently (in a cluster: what is told is known)")
    async def readyz(request: Request) -> Response:
        listed = board.board
        if publications is not None:  # replicas that do not decide answer as well
            try:
                publications.within("")
            except PortError as error:
                return failure(503, "NotReady", str(error))
            return answer(request, {"status": "ready"})
        if listed.last_tick_s is None:
            return failure(503, "NotReady", "the control loop has not finished a round yet")
        age_s = age_of(listed.last_tick_s, now_s())
        if age_s > listed.stale_after_s:
            return failure(
                503,
                "NotReady",
                f"the last round of the control loop is {age_s:.1f} s old; after {listed.stale_after_s:g} s it counts "
                "as stopped",
            )
        return answer(request, {"status": "ready", "at_s": listed.last_tick_s, "age_s": age_s, "stale": False})


def _add_metrics(app: FastAPI, registry: CollectorRegistry) -> None:
    @app.get("/metrics", summary="This controller's own Prometheus metrics")
    async def metrics(request: Request) -> Response:
        encoder, media_type = choose_encoder(request.headers.get("accept", ""))
        page = compressed(request, encoder(registry), media_type="text/plain")
        page.headers["content-type"] = media_type
        return page


def _add_services(app: FastAPI, board: DecisionBoard, now_s: Callable[[], float]) -> None:
    @app.get("/api/v1/services", summary="The latest figures of each service")
    async def services(request: Request) -> Response:
        return answer(request, list_of(board.board, now_s=now_s()))

    @app.get("/api/v1/services/{name:path}/timeline", summary="The last hours of one service as points")
    async def timeline(request: Request, name: str, since: Since = 0.0) -> Response:
        listed = board.board
        entry = _entry(board, name)
        if isinstance(entry, Response):
            return entry
        line = entry.timeline
        summary = summary_of(ServiceId(name), entry, now_s=now_s(), stale_after_s=listed.stale_after_s)
        view = TimelineView(
            at_s=summary.at_s,
            age_s=summary.age_s,
            stale=summary.stale,
            service=ServiceId(name),
            spacing_s=line.spacing_s,
            points=line.since(since),
        )
        return answer(request, view)


def _add_service(app: FastAPI, board: DecisionBoard, now_s: Callable[[], float]) -> None:
    """After the routes that begin alike: in a cluster a service's name is NAMESPACE/NAME."""

    @app.get("/api/v1/services/{name:path}", summary="One service: its latest decision in full, and its changes")
    async def service(request: Request, name: str) -> Response:
        listed = board.board
        entry = _entry(board, name)
        if isinstance(entry, Response):
            return entry
        detail = detail_of(ServiceId(name), entry, now_s=now_s(), stale_after_s=listed.stale_after_s)
        try:
            return answer(request, detail)
        except ValueError as error:
            return failure(500, "NotANumber", f"the latest decision on {name} holds a value without a number: {error}")


def _add_history(app: FastAPI, board: DecisionBoard, history: DecisionHistory, now_s: Callable[[], float]) -> None:
    @app.get("/api/v1/services/{name:path}/decisions", summary="Past decisions of one service, with all their stages")
    def decisions(  # in a thread of its own: the history reads a disk
        request: Request, name: str, since: Since = 0.0, until: Until = None, limit: Limit = 100
    ) -> Response:
        entry = _entry(board, name)
        if isinstance(entry, Response):
            return entry
        until_s = now_s() if until is None else until
        try:
            found = history.decisions(ServiceId(name), since, until_s, limit)
        except PortError as error:
            return failure(503, type(error).__name__, f"the history can't be read: {error}")
        stale_after_s = board.board.stale_after_s
        summary = summary_of(ServiceId(name), entry, now_s=now_s(), stale_after_s=stale_after_s)
        view = DecisionList(
            at_s=summary.at_s,
            age_s=summary.age_s,
            stale=summary.stale,
            service=ServiceId(name),
            decisions=tuple(found),
        )
        return answer(request, view)


def _add_events(app: FastAPI, streams: Streams) -> None:
    @app.get("/api/v1/events", summary="Server-sent events: `services` with what changed, and `heartbeat`")
    async def events() -> Response:
        stream = streams.open()
        if stream is None:
            return failure(
                503,
                "TooManyStreams",
                f"{streams.max_clients} clients listen already; close one, or poll /api/v1/services",
                headers={"retry-after": "10"},
            )
        return stream


def _add_dashboard(app: FastAPI) -> None:
    page = dashboard_page()

    @app.get("/", include_in_schema=False)
    async def dashboard(request: Request) -> Response:
        return page.answer(request)

    @app.get("/static/{name}", include_in_schema=False)
    def static(request: Request, name: str) -> Response:
        file = static_file(name)
        return failure(404, "NotFound", f"there is no file {name}") if file is None else file.answer(request)


def _entry(board: DecisionBoard, name: str) -> Entry | Response:
    entries = board.board.entries
    entry = entries.get(ServiceId(name))
    if entry is not None:
        return entry
    nearest = difflib.get_close_matches(name, entries, n=1, cutoff=0.0)
    hint = f"; the nearest name is {nearest[0]}" if nearest else "; there is none at all"
    return failure(404, "UnknownService", f"no service is called {name}{hint}", nearest=next(iter(nearest), None))
