"""The connection: what is sent, what each answer means, and that no server can hold a caller."""

from __future__ import annotations

import socket
import stat
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import pytest

from adapters.kubernetes.api_errors import BusyError, GoneError, NotFoundError
from adapters.kubernetes.connection import Collection, KubernetesApi, PatchKind
from autoscaler.ports import ConflictError, InvalidAnswerError, PortError, RefusedError, UnavailableError
from tests.adapters_kubernetes.scripted_server import (
    Answer,
    Exchange,
    ScriptedServer,
    answered,
    cut,
    held,
    told,
    watch,
    watch_cut,
    watch_held,
)

PODS = Collection(group="", version="v1", plural="pods")
DEPLOYMENTS = Collection(group="apps", version="v1", plural="deployments", namespace="shop")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(PODS.path, "/api/v1/pods", id="core, all namespaces"),
        pytest.param(PODS.within("x").item("p"), "/api/v1/namespaces/x/pods/p", id="core, one object"),
        pytest.param(DEPLOYMENTS.path, "/apis/apps/v1/namespaces/shop/deployments", id="group"),
        pytest.param(
            DEPLOYMENTS.subresource("web", "scale"),
            "/apis/apps/v1/namespaces/shop/deployments/web/scale",
            id="subresource",
        ),
        pytest.param(PODS.within("x/y").item("../z?"), "/api/v1/namespaces/x%2Fy/pods/..%2Fz%3F", id="no way out"),
    ],
)
def test_paths(path: str, expected: str) -> None:
    assert path == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param(lambda api: api.get("/p", {"limit": "5"}), ("GET", {"limit": "5"}, None, b""), id="get"),
        pytest.param(
            lambda api: api.create("/p", {"a": "é"}),
            ("POST", {"fieldManager": "gpu-autoscaler"}, "application/json", b'{"a":"\\u00e9"}'),
            id="create",
        ),
        pytest.param(
            lambda api: api.replace("/p", {"a": 1}, {"dryRun": "All"}),
            ("PUT", {"fieldManager": "gpu-autoscaler", "dryRun": "All"}, "application/json", b'{"a":1}'),
            id="replace",
        ),
        pytest.param(
            lambda api: api.patch("/p", {"a": None}, kind=PatchKind.MERGE),
            ("PATCH", {"fieldManager": "gpu-autoscaler"}, "application/merge-patch+json", b'{"a":null}'),
            id="merge patch",
        ),
        pytest.param(
            lambda api: api.patch("/p", [{"op": "test"}], kind=PatchKind.JSON),
            ("PATCH", {"fieldManager": "gpu-autoscaler"}, "application/json-patch+json", b'[{"op":"test"}]'),
            id="JSON patch",
        ),
        pytest.param(
            lambda api: api.patch("/p", {"a": 1}, kind=PatchKind.APPLY, force=True),
            ("PATCH", {"fieldManager": "gpu-autoscaler", "force": "true"}, "application/apply-patch+yaml", b'{"a":1}'),
            id="apply",
        ),
        pytest.param(
            lambda api: api.delete("/p", {"propagationPolicy": "Background"}),
            ("DELETE", {}, "application/json", b'{"propagationPolicy":"Background"}'),
            id="delete",
        ),
    ],
)
def test_what_is_sent(
    server: ScriptedServer,
    api: KubernetesApi,
    call: Callable[[KubernetesApi], object],
    expected: tuple[str, dict[str, str], str | None, bytes],
) -> None:
    server.answers(answered({"done": True}))
    assert call(api) == {"done": True}
    (request,) = server.requests
    assert request.path == "/p"
    assert (request.verb, request.query, request.headers.get("content-type"), request.body) == expected
    assert request.headers["authorization"] == "Bearer first"


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        pytest.param(told(400, "bad field"), RefusedError, "bad field", id="400"),
        pytest.param(
            told(403, 'deployments.apps "web" is forbidden: User "u" cannot get resource "deployments"'),
            RefusedError,
            'GET /p: 403 deployments.apps "web" is forbidden: User "u" cannot get resource "deployments"',
            id="403",
        ),
        pytest.param(
            told(403, 'User "system:anonymous" cannot'), RefusedError, "no credentials were sent", id="anonymous"
        ),
        pytest.param(told(404, "no such"), NotFoundError, "404 no such", id="404"),
        pytest.param(told(405, "not so"), RefusedError, "not so", id="405"),
        pytest.param(told(409, "changed"), ConflictError, "changed", id="409"),
        pytest.param(told(410, "too old"), GoneError, "too old", id="410"),
        pytest.param(told(422, "spec.x: Invalid"), RefusedError, "spec.x: Invalid", id="422"),
        pytest.param(told(429, "slow down"), BusyError, "slow down", id="429"),
        pytest.param(told(500, "webhook failed"), UnavailableError, "webhook failed", id="500"),
        pytest.param(told(503, "starting"), UnavailableError, "starting", id="503"),
        pytest.param(lambda e: e.whole(502, b"<html>bad gateway"), UnavailableError, "<html>bad gateway", id="proxy"),
        pytest.param(lambda e: e.whole(200, b"<html>"), InvalidAnswerError, "<html>", id="no JSON"),
        pytest.param(lambda e: e.whole(200, b"[1]"), InvalidAnswerError, "wanted an object, got list", id="a list"),
        pytest.param(lambda e: e.whole(200, b"[" * 100_000), InvalidAnswerError, "no JSON", id="deeply nested"),
        pytest.param(
            lambda e: e.whole(307, b"", {"Location": "http://127.0.0.1:9/p"}), InvalidAnswerError, "307", id="redirect"
        ),
        pytest.param(cut, UnavailableError, "GET /p", id="cut before the answer"),
        pytest.param(lambda e: e.raw(b"garbage\r\n\r\n") or e.cut(), UnavailableError, "GET /p", id="no HTTP"),
        pytest.param(
            lambda e: e.raw(b'HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"a": 1}') or e.cut(),
            UnavailableError,
            "GET /p",
            id="cut in the answer",
        ),
    ],
)
def test_what_an_answer_means(
    server: ScriptedServer, api: KubernetesApi, answer: Answer, kind: type[PortError], says: str
) -> None:
    server.answers(answer)
    with pytest.raises(kind) as caught:
        api.get("/p")
    assert says in str(caught.value)
    assert len(server.requests) == 1, "retries are the caller's"


def test_a_pause_that_the_server_asks_for_is_told_not_slept(server: ScriptedServer, api: KubernetesApi) -> None:
    server.answers(told(429, "slow down", {"Retry-After": "7"}))
    with pytest.raises(BusyError) as caught:
        api.get("/p")
    assert caught.value.retry_after_s == 7.0


def test_nobody_listens(write_kubeconfig: Callable[..., Path]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        api = KubernetesApi.of_kubeconfig(write_kubeconfig(f"http://127.0.0.1:{unused.getsockname()[1]}", {}))
        with pytest.raises(UnavailableError, match="refused"):
            api.get("/p")
        api.close()


def _trickle(exchange: Exchange) -> None:
    exchange.begin_chunks()
    while not exchange.pause(0.05):
        exchange.chunk(b" ")


@pytest.mark.parametrize("answer", [pytest.param(held, id="silent"), pytest.param(_trickle, id="a byte now and then")])
def test_a_hung_server_holds_no_caller(server: ScriptedServer, api: KubernetesApi, answer: Answer) -> None:
    server.answers(answer)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(api.get, "/p", timeout_s=0.3)
        # The server would go on for a minute.
        error = call.exception(timeout=20.0)
    assert isinstance(error, UnavailableError)


def test_a_server_that_does_not_accept_holds_no_caller(write_kubeconfig: Callable[..., Path]) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        # Fill the queue of connections that nobody accepts.
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        api = KubernetesApi.of_kubeconfig(write_kubeconfig(f"http://127.0.0.1:{port}", {}))
        with pytest.raises(UnavailableError):
            api.get("/p", timeout_s=0.3)
        api.close()
        for filler in fillers:
            filler.close()


def test_a_dead_connection_of_the_pool_is_replaced(server: ScriptedServer, api: KubernetesApi) -> None:
    def answer_and_hang_up(exchange: Exchange) -> None:
        exchange.whole(200, b'{"n": 1}')
        exchange.cut()

    server.answers(answer_and_hang_up, answered({"n": 2}))
    assert api.get("/p") == {"n": 1}
    ends_s = monotonic() + 10.0
    while True:
        try:
            assert api.get("/p") == {"n": 2}
            return
        except UnavailableError:  # the end of the old connection may come after the request
            server.answers(answered({"n": 2}))
            assert monotonic() < ends_s


def test_many_threads_use_one_connection(server: ScriptedServer, api: KubernetesApi) -> None:
    server.otherwise = lambda exchange: exchange.whole(200, b'{"path": "%s"}' % exchange.request.path.encode())
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(api.get, [f"/{number}" for number in range(200)]))
    assert [answer["path"] for answer in answers] == [f"/{number}" for number in range(200)]


# Streams


def test_lines_are_whole_however_they_are_cut_into_chunks(server: ScriptedServer, api: KubernetesApi) -> None:
    long = b"x" * 700_000
    server.answers(watch(b"on", b"e\ntwo\n\n", b"thr", b"ee\n" + long[:300_000], long[300_000:] + b"\n", b"unended"))
    with api.stream("/p", silence_s=10.0) as stream:
        assert list(stream) == [b"one", b"two", b"three", long]


@pytest.mark.parametrize(
    ("answer", "silence_s"),
    [pytest.param(watch_cut(b"one\n"), 10.0, id="cut"), pytest.param(watch_held(b"one\n"), 0.3, id="silent")],
)
def test_a_broken_stream_is_told(server: ScriptedServer, api: KubernetesApi, answer: Answer, silence_s: float) -> None:
    server.answers(answer)
    with api.stream("/p", silence_s=silence_s) as stream:
        lines = iter(stream)
        assert next(lines) == b"one"
        with pytest.raises(UnavailableError):
            next(lines)


def test_a_refused_stream_is_told(server: ScriptedServer, api: KubernetesApi) -> None:
    server.answers(told(410, "too old"))
    with pytest.raises(GoneError, match="too old"):
        api.stream("/p", silence_s=10.0)


def test_closing_wakes_the_thread_that_reads(server: ScriptedServer, api: KubernetesApi) -> None:
    server.answers(watch_held(b"one\n"))
    with ThreadPoolExecutor(1) as pool, api.stream("/p", silence_s=60.0) as stream:
        lines = iter(stream)
        assert next(lines) == b"one"
        reading = pool.submit(next, lines, None)
        stream.close()
        error = reading.exception(timeout=20.0)
    assert error is None or isinstance(error, UnavailableError)


# Credentials


def test_a_token_file_that_changed_is_read_when_the_old_token_expires(
    server: ScriptedServer, write_kubeconfig: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.kubernetes.connection._RELOAD_EVERY_S", 0.0)
    token = tmp_path / "token"
    token.write_text("old")
    api = KubernetesApi.of_kubeconfig(write_kubeconfig(server.url, {"tokenFile": str(token)}))
    token.write_text("new")
    server.answers(told(401, "Unauthorized"), answered({"done": True}), told(401, "Unauthorized"), told(401, "still"))
    assert api.get("/p") == {"done": True}
    with pytest.raises(RefusedError, match="still"):
        api.get("/p")
    api.close()
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer old"] + ["Bearer new"] * 3


def test_refused_credentials_are_not_loaded_at_every_call(
    server: ScriptedServer, write_kubeconfig: Callable[..., Path]
) -> None:
    api = KubernetesApi.of_kubeconfig(write_kubeconfig(server.url, {"token": "wrong"}))
    server.otherwise = told(401, "Unauthorized")
    for _ in range(3):
        with pytest.raises(RefusedError, match="Unauthorized"):
            api.get("/p")
    api.close()
    assert len(server.requests) == 3


def test_an_exec_plugin_gives_the_token(
    server: ScriptedServer, write_kubeconfig: Callable[..., Path], tmp_path: Path
) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(
        f"#!{sys.executable}\nimport json\n"
        'print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
        ' "status": {"token": "from-plugin"}}))\n'
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}
    api = KubernetesApi.of_kubeconfig(write_kubeconfig(server.url, user))
    server.answers(answered({}))
    api.get("/p")
    api.close()
    assert server.requests[0].headers["authorization"] == "Bearer from-plugin"


@pytest.mark.parametrize(
    ("content", "context", "says"),
    [
        pytest.param(None, None, "no way to the API server", id="no file"),
        pytest.param("{", None, "no way to the API server", id="no YAML"),
        pytest.param("a: 1", None, "no way to the API server", id="no kubeconfig"),
        pytest.param("whole", "other", "other", id="no such context"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_refused(
    write_kubeconfig: Callable[..., Path], tmp_path: Path, content: str | None, context: str | None, says: str
) -> None:
    path = tmp_path / "absent"
    if content == "whole":
        path = write_kubeconfig("http://127.0.0.1:1", {})
    elif content is not None:
        path.write_text(content)
    with pytest.raises(RefusedError, match=says):
        KubernetesApi.of_kubeconfig(path, context=context)


def test_outside_a_pod_there_is_no_service_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(RefusedError, match="Service host/port is not set"):
        KubernetesApi.in_cluster()
