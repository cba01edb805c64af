"""The smallest server of external metrics, to see that the aggregator and the HPA reach one on this machine."""

from __future__ import annotations

import json
import ssl
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from tests.cluster.certificates import KeyPair

_GROUP = "external.metrics.k8s.io/v1beta1"


class MetricServer:
    """Answers every metric with one value, to anyone; a context manager. ``port``: on 127.0.0.1."""

    def __init__(self, certificate: KeyPair, *, value: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = json.dumps(_answer(self.path, value)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.certificate, certificate.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> MetricServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _answer(path: str, value: str) -> object:
    name = path.partition("?")[0].removeprefix(f"/apis/{_GROUP}").rpartition("/")[2]
    if not name:
        resource = {"name": "desired", "singularName": "", "namespaced": True, "kind": "ExternalMetricValueList"}
        resources = [{**resource, "verbs": ["get"]}]
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": _GROUP, "resources": resources}
    written = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    item = {"metricName": name, "metricLabels": {}, "timestamp": written, "value": value}
    return {"kind": "ExternalMetricValueList", "apiVersion": _GROUP, "metadata": {}, "items": [item]}
