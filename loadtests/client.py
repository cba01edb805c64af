"""One streamed completion over gevent's sockets, with the time of each piece. Nothing is monkey-patched."""

from __future__ import annotations

import http.client
import json
import random
import socket
import time
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

import gevent
import gevent.socket

from loadtests.records import Outcome, RequestRecord

_FIRST_TOKEN_ID, _LAST_TOKEN_ID = 10, 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where requests go. ``chat``: chat completions, with words for tokens; else completions, with token ids.

    ``timeout_s``: a request that takes longer is given up and counts as unfinished. ``salt``: loads of another salt
    have other prompts.
    """

    url: str
    model: str
    chat: bool = False
    timeout_s: float = 120.0
    salt: int = 0

    def __post_init__(self) -> None:
        check_target(self.url, self.timeout_s)

    @property
    def path(self) -> str:
        """The path that is asked."""
        return "/v1/chat/completions" if self.chat else "/v1/completions"

    def measure(self, request: PlannedRequest, *, begin_s: float) -> RequestRecord:
        """See ``measure``."""
        return measure(request, target=self, begin_s=begin_s)


class Measuring(Protocol):
    """Where a load's requests go, whatever they speak there."""

    @property
    def url(self) -> str:
        """Scheme, host and port."""

    @property
    def path(self) -> str:
        """The path that is asked."""

    def measure(self, request: PlannedRequest, *, begin_s: float) -> RequestRecord:
        """Send one request and time its answer; ``begin_s``: the load's begin on the monotonic clock. Raises
        nothing.
        """


def check_target(url: str, timeout_s: float) -> None:
    """Raises ValueError where nothing can be sent to that address, or within that time."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"the target must be a URL such as http://127.0.0.1:8080, got {url!r}")
    if not timeout_s > 0:
        raise ValueError(f"the time-out must be above 0 s, got {timeout_s}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRequest:
    """One request to send. ``due_s``: seconds since the begin of the load."""

    number: int
    due_s: float
    prompt_tokens: int
    output_tokens: int


class TokenTimes:
    """Reads a stream of server-sent events just closely enough to count tokens and to see how it ended."""

    def __init__(self) -> None:
        self.tokens = 0
        self.first_s: float | None = None
        self.last_s = 0.0
        self.complete = False
        self.error = ""
        self._rest = b""

    def feed(self, data: bytes, at_s: float) -> None:
        """Take in bytes that came at ``at_s``."""
        events = (self._rest + data).split(b"\n\n")
        self._rest = events.pop()
        for event in events:
            if not event.startswith(b"data: "):
                continue
            if b'"choices":[{' in event:
                if b'"role":"assistant"' not in event:
                    self._token(at_s)
            elif event == b"data: [DONE]":
                self.complete = True
            else:
                self._rare(event)

    def _token(self, at_s: float) -> None:
        self.tokens += 1
        self.last_s = at_s
        if self.first_s is None:
            self.first_s = at_s

    def _rare(self, event: bytes) -> None:
        """Usage, which knows the number of tokens better than the number of events does, or an error."""
        try:
            body = json.loads(event[6:])
        except ValueError:
            self.error = f"not JSON: {event[:80]!r}"
            return
        if "error" in body:
            self.error = str(body["error"])[:200]
        elif isinstance(usage := body.get("usage"), dict):
            self.tokens = int(usage.get("completion_tokens", self.tokens))


class _GreenConnection(http.client.HTTPConnection):
    """The standard client on a socket that lets other greenlets run while it waits."""

    def connect(self) -> None:
        self.sock = gevent.socket.create_connection((self.host, self.port), self.timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def measure(request: PlannedRequest, *, target: Target, begin_s: float) -> RequestRecord:
    """Send one request and time its answer. ``begin_s``: the load's begin on the monotonic clock. Raises
    nothing.
    """
    due_s = begin_s + request.due_s
    sent_s = time.monotonic()
    times = TokenTimes()
    status: int | None = None
    problem = ""
    parts = urlsplit(target.url)
    connection = _GreenConnection(parts.hostname or "", parts.port or 80, timeout=target.timeout_s)
    try:
        with gevent.Timeout(target.timeout_s):
            connection.request("POST", target.path, _body(request, target), {"Content-Type": "application/json"})
            response = connection.getresponse()
            status = response.status
            while status == 200 and (data := response.read1(65536)):
                times.feed(data, time.monotonic())
    except gevent.Timeout:
        problem = f"took longer than {target.timeout_s:g} s"
    except gevent.GreenletExit:
        problem = "still under way when the run ended"
    except (OSError, http.client.HTTPException) as error:
        problem = f"{type(error).__name__}: {error}"
    finally:
        connection.close()
    end_s = time.monotonic()
    problem = problem or times.error or ("" if status == 200 else f"status {status}")
    if not problem and not times.complete:
        problem = "the stream ended early"
    return RequestRecord(
        number=request.number,
        due_s=request.due_s,
        late_s=max(0.0, sent_s - due_s),
        prompt_tokens=request.prompt_tokens,
        asked_tokens=request.output_tokens,
        output_tokens=times.tokens,
        outcome=outcome_of(status, problem),
        status=status,
        ttft_s=None if times.first_s is None else times.first_s - due_s,
        itl_s=None
        if times.first_s is None or times.tokens < 2
        else (times.last_s - times.first_s) / (times.tokens - 1),
        e2e_s=end_s - due_s,
        error=problem,
    )


def outcome_of(status: int | None, problem: str) -> Outcome:
    """How a request ended whose answer had that status (None: no answer) and that fault ("" for none)."""
    if not problem:
        return Outcome.FINISHED
    if status == 200 or "took longer" in problem or "under way" in problem:
        return Outcome.UNFINISHED
    return Outcome.REFUSED


def _body(request: PlannedRequest, target: Target) -> bytes:
    # Ids differ from request to request, so that an engine's prefix cache has nothing to reuse.
    drawn = random.Random(f"{target.salt}/{request.number}")
    ids = drawn.choices(range(_FIRST_TOKEN_ID, _LAST_TOKEN_ID), k=request.prompt_tokens)
    body: dict[str, object] = {
        "model": target.model,
        "max_tokens": request.output_tokens,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if target.chat:
        body["messages"] = [{"role": "user", "content": " ".join(f"w{number}" for number in ids)}]
    else:
        body["prompt"] = ids
    return json.dumps(body, separators=(",", ":")).encode()
