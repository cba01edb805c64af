"""What is shown to Prometheus, and to whom."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from adapters.loop_thread import LoopThread
from adapters.prometheus.settings import PrometheusSettings, Secret, TlsSettings
from autoscaler.domain.reading import EngineReading, Unknown, UnknownReason
from tests.adapters_engines.conftest import Serve
from tests.adapters_prometheus.asking import chat, one, reading, target
from tests.adapters_prometheus.conftest import HandClock
from tests.adapters_prometheus.fleets import page
from tests.adapters_prometheus.query_api import ScrapedPages
from tests.external_metrics.authorities import CLIENT, SERVER, authority, issue


@pytest.fixture
def stored() -> ScrapedPages:
    pages = ScrapedPages()
    pages.scrape(page(3, 0), at_s=999.0, **target(1))
    return pages


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"bearer_token": Secret(value="t0ken")}, {"Authorization": "Bearer t0ken"}, id="token"),
        pytest.param(
            {"username": Secret(value="me"), "password": Secret(value="pä:ss")},
            {"Authorization": "Basic bWU6cMOkOnNz"},
            id="name and password",
        ),
        pytest.param({"headers": {"X-Scope-OrgID": "team"}}, {"X-Scope-OrgID": "team"}, id="tenant"),
    ],
)
def test_what_is_shown(
    serve: Serve, clock: HandClock, stored: ScrapedPages, given: dict[str, object], expected: dict[str, str]
) -> None:
    with reading(serve(stored.answer) + "/prefix/", clock, **given) as source:
        assert isinstance(one(source, chat(1)), EngineReading)
    shown = stored.headers[-1]
    assert {name: shown[name] for name in expected} == expected


def test_a_file_is_read_each_time(serve: Serve, clock: HandClock, stored: ScrapedPages, tmp_path: Path) -> None:
    file = tmp_path / "token"
    with reading(serve(stored.answer), clock, bearer_token=Secret(file=file)) as source:
        missing = one(source, chat(1))
        assert isinstance(missing, Unknown)
        assert (missing.reason, str(file) in missing.detail) == (UnknownReason.UNREACHABLE, True)
        for token in ("first", "second"):
            file.write_text(f"{token}\n")
            assert isinstance(one(source, chat(1)), EngineReading)
            assert stored.headers[-1]["Authorization"] == f"Bearer {token}"


def test_a_secret_goes_to_nobody_else(serve: Serve, clock: HandClock) -> None:
    asked = threading.Event()

    async def elsewhere(_: web.Request) -> web.StreamResponse:
        asked.set()
        return web.Response()

    async def redirect(_: web.Request) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": other})

    other = serve(elsewhere)
    with reading(serve(redirect), clock, bearer_token=Secret(value="t0ken")) as source:
        seen = one(source, chat(1))
    assert isinstance(seen, Unknown)
    assert "t0ken" not in str(seen)
    assert not asked.is_set()


@contextmanager
def tls_server(stored: ScrapedPages, context: ssl.SSLContext) -> Iterator[str]:
    """https://localhost:PORT."""
    loop = LoopThread("served")
    app = web.Application()
    app.router.add_post("/{path:.*}", stored.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)

    async def start() -> int:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        return int(runner.addresses[0][1])

    yield f"https://127.0.0.1:{loop.begin(start()).result()}"
    loop.begin(runner.cleanup()).result()
    loop.close()


def test_tls(clock: HandClock, stored: ScrapedPages, tmp_path: Path) -> None:
    """Who is trusted, by name, and who is not; a certificate of our own that is asked for."""
    ours, another = authority("ours"), authority("another")
    ca, _ = ours.write(tmp_path, "ca")
    other_ca, _ = another.write(tmp_path, "other")
    server = issue(ours, "prometheus.inner", use=SERVER, hosts=("prometheus.inner",)).write(tmp_path, "server")
    client = issue(ours, "autoscaler", use=CLIENT).write(tmp_path, "client")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ca)
    context.load_cert_chain(*server)
    context.verify_mode = ssl.CERT_REQUIRED
    shown = TlsSettings(ca_file=ca, certificate_file=client[0], key_file=client[1], server_name="prometheus.inner")
    with tls_server(stored, context) as url:
        for tls, works in (
            (shown, True),
            (replace(shown, certificate_file=None, key_file=None), False),
            (replace(shown, ca_file=other_ca), False),
            (replace(shown, server_name=None), False),
            (TlsSettings(), False),
            (replace(shown, ca_file=None, server_name=None, verify=False), True),
        ):
            with reading(url, clock, tls=tls) as source:
                seen = one(source, chat(1))
            assert isinstance(seen, EngineReading) == works, (tls, seen)
            assert works or (isinstance(seen, Unknown) and seen.reason is UnknownReason.UNREACHABLE)


def test_secrets_are_not_printed() -> None:
    settings = PrometheusSettings(url="http://p", bearer_token=Secret(value="t0ken"), headers={"X": "t0ken"})
    assert "t0ken" not in repr(settings)
