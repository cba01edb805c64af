"""A gateway that is not ours on the test cluster: it holds requests while no replica is ready, and its page tells so.

Its page has the names of an endpoint picker's with flow control (llm-d's router; kubernetes-sigs/
gateway-api-inference-extension ``pkg/epp/metrics``), as far as the requests of one model go.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.cluster.api import Json
from tests.cluster.running import Cluster
from tests.cluster.workloads import ask, await_ready_pods, is_ready

LABELS = {"app": "picker"}
PORT = 9090
_PATIENCE_S = 60.0
_LOOK_S = 0.2


class EndpointPicker:
    """Requests by POST at ``address``; its page at ``/metrics``, or the text ``page`` where that is set."""

    def __init__(self, cluster: Cluster, namespace: str, address: str, *, model: str) -> None:
        self.address = address
        self.model = model
        self.page: str | None = None
        self._cluster = cluster
        self._namespace = namespace
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def told(self) -> str:
        """Its page. A family comes with the first request, as the originals' do."""
        if self.page is not None:
            return self.page
        lines = ["# TYPE llm_d_epp_info gauge", 'llm_d_epp_info{build_ref="test"} 1']
        with self._lock:
            counts = dict(self._counts)
        for name, kind in (
            ("llm_d_epp_request_total", "counter"),
            ("llm_d_epp_request_running", "gauge"),
            ("llm_d_epp_flow_control_queue_size", "gauge"),
        ):
            if name in counts:
                labels = f'model_name="{self.model}",target_model_name="{self.model}"'
                lines += [f"# TYPE {name} {kind}", f"{name}{{{labels}}} {counts[name]}"]
        return "\n".join((*lines, ""))

    def request(self, body: object) -> tuple[int, bytes]:
        """Hold a request until a replica is ready, and pass it on; 503 where none gets ready."""
        self._count(llm_d_epp_flow_control_queue_size=1)
        pod = self._ready_pod()
        self._count(llm_d_epp_flow_control_queue_size=-1)
        if pod is None:
            return 503, b"no replica"
        self._count(llm_d_epp_request_total=1, llm_d_epp_request_running=1)
        try:
            return ask(pod, "/v1/completions", body)
        finally:
            self._count(llm_d_epp_request_running=-1)

    def _count(self, **changes: int) -> None:
        with self._lock:
            for name, change in changes.items():
                self._counts[name] += change

    def _ready_pod(self) -> Json | None:
        until_s = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until_s:
            pods = self._cluster.pods(self._namespace, f"app={self.model}")
            ready = [pod for pod in pods if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]]
            if ready:
                return ready[0]
            time.sleep(_LOOK_S)
        return None


@contextmanager
def endpoint_picker(cluster: Cluster, namespace: str, *, model: str) -> Iterator[EndpointPicker]:
    """One in a pod of its own, for the length of a block; in front of the pods whose label ``app`` is the model."""
    container = {"name": "epp", "image": "epp:test", "ports": [{"name": "pages", "containerPort": PORT}]}
    metadata = {"name": "picker", "labels": LABELS}
    cluster.apply(
        [{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}],
        namespace=namespace,
    )
    (pod,) = await_ready_pods(cluster, namespace, 1, app=LABELS["app"])
    picker = EndpointPicker(cluster, namespace, pod["status"]["podIP"], model=model)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, picker.told().encode())

        def do_POST(self) -> None:
            body: Any = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer(*picker.request(body))

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer((picker.address, PORT), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield picker
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
