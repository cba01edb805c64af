"""A real HTTP server on loopback that answers as a test wrote down, wrongly and late where it says so."""

from __future__ import annotations

import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

JsonObject = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What came."""

    verb: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, object]:
        """The body, an object."""
        parsed = json.loads(self.body)
        assert isinstance(parsed, dict)
        return parsed


class Exchange:
    """One request and the way to answer it."""

    def __init__(self, handler: BaseHTTPRequestHandler, request: Request, over: threading.Event) -> None:
        self._handler = handler
        self.request = request
        self._over = over

    def raw(self, data: bytes) -> None:
        """Bytes as they are."""
        self._handler.wfile.write(data)
        self._handler.wfile.flush()

    def whole(self, code: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """A complete answer."""
        self._handler.send_response(code)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self._handler.send_header(name, value)
        self._handler.send_header("Content-Length", str(len(body)))
        self._handler.end_headers()
        self.raw(body)

    def begin_chunks(self) -> None:
        """The head of an answer without end."""
        self._handler.send_response(200)
        self._handler.send_header("Transfer-Encoding", "chunked")
        self._handler.end_headers()

    def chunk(self, data: bytes) -> None:
        """A part of it; an empty one ends it."""
        self.raw(b"%x\r\n%s\r\n" % (len(data), data))

    def cut(self) -> None:
        """Break the connection off."""
        self._handler.close_connection = True
        self._handler.connection.shutdown(socket.SHUT_RDWR)

    def hold(self) -> None:
        """Say nothing more until the test ends."""
        self._handler.close_connection = True
        self._over.wait(timeout=60.0)

    def pause(self, duration_s: float) -> bool:
        """Wait; true when the test ended meanwhile."""
        return self._over.wait(timeout=duration_s)


Answer = Callable[[Exchange], None]


@dataclass(slots=True)
class ScriptedServer:
    """``script``: answers in the order of the requests; after the last ``otherwise``. ``requests``: what came."""

    script: deque[Answer] = field(default_factory=deque)
    otherwise: Answer = lambda exchange: exchange.hold()
    requests: list[Request] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def answers(self, *answers: Answer) -> None:
        """Append to the script."""
        self.script.extend(answers)

    def start(self) -> None:
        """Listen on a free port."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, format: str, *args: object) -> None:
                """Nothing."""

            def _serve(self) -> None:
                parts = urlsplit(self.path)
                request = Request(
                    verb=self.command,
                    path=parts.path,
                    query=dict(parse_qsl(parts.query, keep_blank_values=True)),
                    headers={name.lower(): value for name, value in self.headers.items()},
                    body=self.rfile.read(int(self.headers.get("Content-Length") or 0)),
                )
                with outer._lock:
                    outer.requests.append(request)
                    answer = outer.script.popleft() if outer.script else outer.otherwise
                try:
                    answer(Exchange(self, request, outer._over))
                except OSError:
                    self.close_connection = True

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """A client that goes away is part of most tests."""

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        """End every answer and stop listening."""
        self._over.set()
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()


def answered(body: JsonObject, code: int = 200) -> Answer:
    """A JSON answer."""
    return lambda exchange: exchange.whole(code, json.dumps(body).encode())


def told(code: int, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    """A failure with the Status object of the API."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
    return lambda exchange: exchange.whole(code, json.dumps(status).encode(), headers)


def thing(name: str, version: str, **spec: object) -> JsonObject:
    """An object of namespace "x"."""
    return {"metadata": {"namespace": "x", "name": name, "resourceVersion": version}, "spec": spec}


def page(items: Sequence[JsonObject], version: str, *, more: str = "") -> Answer:
    """One page of a list."""
    return answered({"metadata": {"resourceVersion": version, "continue": more}, "items": list(items)})


def event(kind: str, source: JsonObject) -> bytes:
    """A line of a watch."""
    return json.dumps({"type": kind, "object": source}).encode() + b"\n"


def bookmark(version: str) -> bytes:
    """A line that says how far the watch has come."""
    return event("BOOKMARK", {"metadata": {"resourceVersion": version}})


def watch(*lines: bytes) -> Answer:
    """A watch that the server ends properly after these lines."""

    def answer(exchange: Exchange) -> None:
        exchange.begin_chunks()
        for line in (*lines, b""):
            exchange.chunk(line)

    return answer


def watch_cut(*lines: bytes) -> Answer:
    """A watch whose connection breaks after these lines."""

    def answer(exchange: Exchange) -> None:
        exchange.begin_chunks()
        for line in lines:
            exchange.chunk(line)
        exchange.cut()

    return answer


def watch_held(*lines: bytes) -> Answer:
    """A watch that goes silent after these lines, its connection open."""

    def answer(exchange: Exchange) -> None:
        exchange.begin_chunks()
        for line in lines:
            exchange.chunk(line)
        exchange.hold()

    return answer


def cut(exchange: Exchange) -> None:
    """No answer: the connection breaks."""
    exchange.cut()


def held(exchange: Exchange) -> None:
    """No answer: the connection stays open."""
    exchange.hold()
