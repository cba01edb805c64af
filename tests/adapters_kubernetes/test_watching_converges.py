"""Whatever happens on the way, a watched collection ends up as what the server holds."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.kubernetes.connection import Collection, KubernetesApi
from adapters.kubernetes.raw_json import whole
from adapters.kubernetes.waiting import EventWaiter
from adapters.kubernetes.watching import Watched, WatchPace
from tests.adapters_kubernetes.scripted_server import Exchange, ScriptedServer, bookmark, event, thing

THINGS = Collection(group="example.org", version="v1", plural="things")


class ThingStore:
    """A collection with its history, served by list and watch as the API server does."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.ended = False
        self._history: list[tuple[int, bytes]] = []
        self._version = 10
        self._kept_from = 10
        self._failures = 0
        self._cuts = 0
        self._changed = threading.Condition()

    def put(self, name: str, size: int) -> None:
        """Add or update."""
        with self._changed:
            kind = "MODIFIED" if name in self.sizes else "ADDED"
            self.sizes[name] = size
            self._write(kind, name, size)

    def remove(self, name: str) -> None:
        """Delete, where it is there."""
        with self._changed:
            if name in self.sizes:
                self._write("DELETED", name, self.sizes.pop(name))

    def compact(self) -> None:
        """Forget the history, and break watches off: those who come again are too late."""
        with self._changed:
            self._version += 1
            self._kept_from = self._version
            self._cuts += 1
            self._changed.notify_all()

    def cut(self) -> None:
        """Break all watches off."""
        with self._changed:
            self._cuts += 1
            self._changed.notify_all()

    def fail(self) -> None:
        """Answer the next two requests with an error, and break watches off."""
        with self._changed:
            self._failures += 2
            self._cuts += 1
            self._changed.notify_all()

    def end(self) -> None:
        """Let go of all watches."""
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def __call__(self, exchange: Exchange) -> None:
        """Answer one request."""
        with self._changed:
            failing = self._failures > 0
            self._failures -= failing
        if failing:
            exchange.whole(500, b"{}")
        elif "watch" in exchange.request.query:
            self._watch(exchange, int(exchange.request.query["resourceVersion"]))
        else:
            self._list(exchange)

    def _write(self, kind: str, name: str, size: int) -> None:
        self._version += 1
        self._history.append((self._version, event(kind, thing(name, str(self._version), size=size))))
        self._changed.notify_all()

    def _list(self, exchange: Exchange) -> None:
        limit = int(exchange.request.query.get("limit", "1000"))
        start, _, told_version = exchange.request.query.get("continue", "0:").partition(":")
        with self._changed:
            version = int(told_version or self._version)
            names = sorted(self.sizes)[int(start) : int(start) + limit]
            items = [thing(name, str(version), size=self.sizes[name]) for name in names]
            more = f"{int(start) + limit}:{version}" if int(start) + limit < len(self.sizes) else ""
            # A page of a past that has changed can't be given by this server, which keeps one version only.
            gone = version != self._version
        if gone:
            exchange.whole(410, b'{"message": "the continue token is too old"}')
            return
        answer = {"metadata": {"resourceVersion": str(version), "continue": more}, "items": items}
        exchange.whole(200, json.dumps(answer).encode())

    def _watch(self, exchange: Exchange, after: int) -> None:
        with self._changed:
            too_old, cuts = after < self._kept_from, self._cuts
        if too_old:
            exchange.whole(410, b'{"message": "too old resource version"}')
            return
        exchange.begin_chunks()
        while True:
            with self._changed:
                self._await_news(cuts, after)
                lines = [line for version, line in self._history if version > after]
                after = max(after, self._history[-1][0] if self._history else after)
                over = self.ended or self._cuts > cuts
                reached = self._version
            if over:
                exchange.cut()
                return
            if not lines:
                after = reached
                lines = [bookmark(str(reached))]
            exchange.chunk(b"".join(lines))

    def _await_news(self, cuts: int, after: int) -> None:
        self._changed.wait_for(lambda: self.ended or self._cuts > cuts or self._version > after, timeout=60.0)


class PromptWaiter(EventWaiter):
    """Hardly lets time pass."""

    def wait(self, duration_s: float) -> bool:
        return super().wait(0.001)


_steps = st.one_of(
    st.tuples(st.just("put"), st.sampled_from("abcdef"), st.integers(0, 3)),
    st.tuples(st.just("remove"), st.sampled_from("abcdef"), st.just(0)),
    st.tuples(st.sampled_from(("cut", "compact", "fail", "settle")), st.just(""), st.just(0)),
)


def _await(true: Callable[[], bool]) -> None:
    ends_s = monotonic() + 20.0
    while not true():
        assert monotonic() < ends_s, "it did not converge"
        sleep(0.001)


@pytest.fixture
def connected(write_kubeconfig: Callable[..., Path], server: ScriptedServer) -> KubernetesApi:
    """To the server that is given another store by each example."""
    return KubernetesApi.of_kubeconfig(write_kubeconfig(server.url, {}))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(_steps, max_size=25))
def test_it_ends_up_as_the_server_is(
    server: ScriptedServer, connected: KubernetesApi, steps: list[tuple[str, str, int]]
) -> None:
    store = ThingStore()
    server.otherwise = store
    watched = Watched(
        connected,
        THINGS,
        lambda source: whole(source, "spec", "size"),
        now_s=lambda: 0.0,
        pace=WatchPace(page=2),
        waiter=PromptWaiter(),
    )

    def settled() -> bool:
        return watched.synced and {key.name: size for key, size in watched.items().items()} == store.sizes

    watched.start()
    for kind, name, size in steps:
        if kind == "put":
            store.put(name, size)
        elif kind == "remove":
            store.remove(name)
        elif kind == "settle":
            _await(settled)
        else:
            getattr(store, kind)()
    _await(settled)
    store.end()
    watched.close()
