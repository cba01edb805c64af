"""The server under clients that mean harm or are just slow, and while its certificate changes."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adapters.serving.external.server import ExternalMetricsServer
from adapters.serving.external.settings import ExternalMetricsSettings
from autoscaler.ports import RefusedError
from tests.external_metrics.authorities import authority, issue
from tests.external_metrics.scene import API, START_S, Scene, ask_on, named

READ = f"GET {API}/namespaces/prod/desired_replicas HTTP/1.1\r\nHost: x\r\nX-Remote-User: monitor\r\n".encode()
PATIENCE_S = 30.0


@contextlib.contextmanager
def raw(scene: Scene, *, proven: bool = True) -> Iterator[ssl.SSLSocket]:
    """A TLS connection; ``proven``: the front proxy's."""
    context = scene.tls(scene.proxy if proven else None)
    with (
        socket.create_connection(("127.0.0.1", scene.server.port), timeout=PATIENCE_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        yield connection


def all_of(connection: ssl.SSLSocket) -> bytes:
    """What comes until the server closes; "" where it just cuts."""
    received = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while piece := connection.recv(65536):
            received += piece
    return received


def replies_in(received: bytes) -> int:
    return received.count(b"HTTP/1.1 200 OK")


def eventually(holds: Callable[[], bool]) -> None:
    tick = threading.Event()
    for _ in range(int(PATIENCE_S / 0.02)):
        if holds():
            return
        tick.wait(0.02)
    raise AssertionError("it never came to hold")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(READ + b"X-Long: " + b"a" * 200_000 + b"\r\n\r\n", b"400", id="huge header"),
        pytest.param(READ + b"".join(b"X-%d: a\r\n" % n for n in range(2000)) + b"\r\n", b"400", id="2,000 headers"),
        pytest.param(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"400", id="huge path"),
        pytest.param(b"\x16\x03\x01\x00\xff" * 10 + b"\r\n\r\n", b"400", id="TLS in TLS"),
        pytest.param(READ + b"Content-Length: 5\r\nContent-Length: 7\r\n\r\n", b"400", id="two lengths"),
        pytest.param(
            READ + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400", id="length and chunks"
        ),
        pytest.param(READ + b"Content-Length: 9999999999\r\n\r\n" + b"a" * 300_000, b"200", id="endless body"),
        pytest.param(READ + b"Transfer-Encoding: chunked\r\n\r\nfffff\r\n" + b"a" * 1000, b"200", id="half a chunk"),
        pytest.param(READ + b"Upgrade: h2c\r\nConnection: Upgrade\r\n\r\n" + b"a" * 1000, b"200", id="upgrade"),
        pytest.param(READ + b"Connection: close\r\n\r\n", b"200", id="last request"),
        pytest.param(b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\nX-Remote-User: monitor\r\n\r\n", b"40", id="tunnel"),
    ],
)
def test_whatever_is_sent_gets_one_answer_and_an_end(
    scene: Scene, sent: bytes, status: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with raw(scene) as connection:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            connection.sendall(sent)
        received = all_of(connection)
    assert received.count(b"HTTP/1.") <= 1
    assert received == b"" or received.split()[1].startswith(status)
    assert status != b"200" or received
    assert caplog.text == ""
    assert scene.metric().status == 200


def test_pipelined_requests_are_answered_in_order(scene: Scene) -> None:
    with raw(scene) as connection:
        connection.sendall((READ + b"\r\n") * 499 + READ + b"Connection: close\r\n\r\n")
        assert replies_in(all_of(connection)) == 500


def test_a_client_that_sends_without_end_and_reads_nothing_holds_up_nobody(scene: Scene) -> None:
    with raw(scene) as connection:
        connection.settimeout(0.5)
        with pytest.raises((TimeoutError, ConnectionError, ssl.SSLError)):
            connection.sendall((READ + b"\r\n") * 200_000)
        assert scene.metric().status == 200


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(READ, id="half a request"),
        pytest.param(READ.replace(b"X-Remote-User: monitor\r\n", b"") + b"\r\n", id="a request that proves nothing"),
    ],
)
def test_a_connection_that_proves_nothing_is_cut_off(tmp_path: Path, sent: bytes) -> None:
    scene = Scene(tmp_path, prove_within_s=0.3)
    scene.server.set_trust(scene.trust())
    scene.server.start()
    try:
        with raw(scene) as connection, raw(scene) as kept:
            kept.sendall(READ + b"\r\n")
            connection.sendall(sent)
            assert replies_in(all_of(connection)) == 0  # ends: the server was less patient than the socket
            kept.sendall(READ + b"Connection: close\r\n\r\n")
            assert all_of(kept).count(b"HTTP/1.1 404") == 2
    finally:
        scene.server.stop()


def test_a_thousand_connections_at_once(scene: Scene) -> None:
    context = scene.tls(scene.proxy)
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(1000):
            plain = stack.enter_context(socket.create_connection(("127.0.0.1", scene.server.port), PATIENCE_S))
            connections.append(stack.enter_context(context.wrap_socket(plain, server_hostname="localhost")))
            connections[-1].sendall(READ + b"\r\n")
        for _ in range(2):
            for connection in connections:
                assert connection.recv(65536).startswith(b"HTTP/1.1 200")
                connection.sendall(READ + b"\r\n")


@pytest.mark.parametrize("proven", [False, True], ids=["that have proven nothing", "of direct callers"])
def test_too_many_connections_cost_those(tmp_path: Path, proven: bool) -> None:  # noqa: FBT001
    scene = Scene(tmp_path, most=20)
    scene.server.set_trust(scene.trust())
    scene.server.start()
    direct = issue(scene.ca, "monitor") if proven else None
    try:
        with contextlib.ExitStack() as stack, scene.connected(scene.proxy) as kept:
            assert ask_on(kept, "/apis", headers=named("monitor")).status == 200
            many = [stack.enter_context(scene.connected(direct)) for _ in range(40)]
            for each in many:
                assert ask_on(each, "/apis").status == (200 if proven else 401)
            assert scene.metric().status == 404
            assert ask_on(kept, "/apis", headers=named("monitor")).status == 200
            with pytest.raises(ConnectionError):
                ask_on(many[0], "/apis")
    finally:
        scene.server.stop()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_from_1_2_on(scene: Scene, version: ssl.TLSVersion) -> None:
    context = scene.tls(scene.proxy)
    context.minimum_version = context.maximum_version = version
    with (
        socket.create_connection(("127.0.0.1", scene.server.port)) as plain,
        context.wrap_socket(plain, server_hostname="gpu-autoscaler.gpu-as.svc") as connection,
    ):
        connection.sendall(READ + b"Connection: close\r\n\r\n")
        assert replies_in(all_of(connection)) == 1
        assert connection.version() == version.name.replace("_", ".")


def test_a_changed_certificate_is_shown_to_new_connections(scene: Scene) -> None:
    def shown() -> bytes | None:
        with raw(scene) as connection:
            return connection.getpeercert(binary_form=True)

    first = shown()
    with scene.connected(scene.proxy) as kept:
        kept.request("GET", "/apis", headers={"X-Remote-User": "monitor"})
        kept.getresponse().read()
        scene.certificate_file.write_text("half written")
        scene.serving_pair().write(scene.folder, "serving")
        eventually(lambda: shown() != first)
        kept.request("GET", "/apis", headers={"X-Remote-User": "monitor"})
        assert kept.getresponse().status == 200


def test_the_clusters_trust_changes_while_the_certificate_is_half_written(scene: Scene) -> None:
    scene.certificate_file.write_text("half written")
    rotated = authority("front-proxy-ca")
    scene.server.set_trust(scene.trust(proxy_ca=rotated))
    scene.serving_pair().write(scene.folder, "serving")
    new = issue(rotated, "front-proxy-client")

    def taken() -> bool:
        with contextlib.suppress(OSError):
            return scene.ask("/apis", pair=new, headers=[("X-Remote-User", "monitor")]).status == 200
        return False

    eventually(taken)


def test_a_certificate_without_its_key_is_not_taken(scene: Scene) -> None:
    scene.serving_pair().write(scene.folder, "other")
    mismatched = (scene.folder / "other.crt").read_text()
    scene.certificate_file.write_text(mismatched)
    with raw(scene) as connection:
        shown = connection.getpeercert(binary_form=True)
    assert shown is not None
    assert ssl.DER_cert_to_PEM_cert(shown).strip() != mismatched.strip()
    (scene.folder / "other.key").replace(scene.key_file)

    def taken() -> bool:
        with raw(scene) as connection:
            der = connection.getpeercert(binary_form=True)
        return der is not None and ssl.DER_cert_to_PEM_cert(der).strip() == mismatched.strip()

    eventually(taken)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        pytest.param({"certificate_file": "missing.crt"}, "externalMetrics.certificateFile", id="no certificate"),
        pytest.param({"key_file": "missing.key"}, "externalMetrics.keyFile", id="no key"),
        pytest.param({"key_file": "serving.crt"}, "externalMetrics.keyFile", id="no key in it"),
        pytest.param({"key_file": "stranger.key"}, "externalMetrics.certificateFile", id="another's key"),
    ],
)
def test_certificates_that_can_not_be_used(scene: Scene, changes: dict[str, str], key: str) -> None:
    issue(scene.ca, "stranger").write(scene.folder, "stranger")
    files = {"certificate_file": "serving.crt", "key_file": "serving.key", **changes}
    settings = ExternalMetricsSettings(
        port=0,
        certificate_file=scene.folder / files["certificate_file"],
        key_file=scene.folder / files["key_file"],
    )
    with pytest.raises(RefusedError, match=key):
        ExternalMetricsServer(settings, scene.shelf, scene.cluster, now_s=lambda: START_S)


@pytest.mark.parametrize(
    ("host", "port", "says"),
    [
        pytest.param("127.0.0.1", None, "externalMetrics.port: .* is taken", id="port is taken"),
        pytest.param("192.0.2.1", 0, "externalMetrics.host: .* no address of this machine", id="another's address"),
        pytest.param("no.such.host.invalid", 0, "externalMetrics.host", id="no address"),
    ],
)
def test_addresses_that_can_not_be_listened_on(scene: Scene, host: str, port: int | None, says: str) -> None:
    settings = ExternalMetricsSettings(
        host=host,
        port=scene.server.port if port is None else port,
        certificate_file=scene.certificate_file,
        key_file=scene.key_file,
    )
    with pytest.raises(RefusedError, match=says):
        ExternalMetricsServer(settings, scene.shelf, scene.cluster, now_s=lambda: START_S).start()


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"host": ""}, "externalMetrics.host"),
        ({"host": "a b"}, "externalMetrics.host"),
        ({"port": 70_000}, "externalMetrics.port"),
        ({"max_connections": 0}, "externalMetrics.maxConnections"),
    ],
)
def test_settings_out_of_range(values: dict[str, object], key: str) -> None:
    with pytest.raises(ValueError, match=key):
        ExternalMetricsSettings(certificate_file=Path("a"), key_file=Path("b"), **values)  # type: ignore[arg-type]


def test_what_can_not_be_read_of_the_clusters_trust_leaves_the_last(scene: Scene) -> None:
    broken = scene.trust()
    for wrong, key in (
        (type(broken)(front_proxy_ca_pem="no PEM"), "requestheader-client-ca-file"),
        (type(broken)(client_ca_pem="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"), "client-ca-file"),
    ):
        with pytest.raises(RefusedError, match=key):
            scene.server.set_trust(wrong)
    assert scene.metric().status == 200


def test_nobody_is_let_in_by_certificate_before_the_clusters_trust_is_read(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.server.start()
    try:
        assert scene.ask("/livez").status == 200
        assert scene.ask("/readyz").status == 503
        with pytest.raises((ssl.SSLError, ConnectionError)):
            scene.metric()
        scene.server.set_trust(scene.trust())
        assert scene.metric().status == 404
        assert scene.ask("/readyz").status == 200
    finally:
        scene.server.stop()


def test_stopped_it_answers_nobody_and_frees_its_port(scene: Scene) -> None:
    port = scene.server.port
    with raw(scene) as connection:
        scene.server.stop()
        assert all_of(connection) == b""
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", port))
    scene.server.stop()


def test_an_error_of_ours_is_an_error_and_no_number(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.shelf.of = lambda namespace, name: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    reply = scene.metric(selector="service%3Dchat")
    assert (reply.status, json.loads(reply.body)["reason"]) == (500, "InternalError")
    assert "ZeroDivisionError" in caplog.text
