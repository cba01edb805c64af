"""Requests to the engines in a Deployment's pods, as a Service would spread them: there is no cluster network here."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.cluster.api import ApiError
from tests.cluster.running import Cluster
from tests.cluster.workloads import ask, is_ready

_BODY = {"model": "chat", "prompt": "one two three four", "max_tokens": 20}
_LOOK_S = 0.5


@dataclass
class Load:
    """Requests at a fixed rate (an open loop), each to the ready pod with the fewest in flight.

    ``begun_s``: when the first was sent (monotonic seconds), None before.
    """

    cluster: Cluster
    namespace: str
    rps: float
    app: str = "chat"
    answered: list[tuple[float, float]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    begun_s: float | None = None

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._in_flight: Counter[str] = Counter()
        self._ready: list[dict[str, object]] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Load:
        for target in (self._watch, self._pace):
            thread = threading.Thread(target=target, daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=30)

    def late_share(self, *, since_s: float, within_s: float) -> float:
        """Of the answers to requests sent since then (monotonic seconds), those that took longer than that."""
        took = [took_s for sent_s, took_s in self.answered if sent_s >= since_s]
        return sum(each > within_s for each in took) / len(took) if took else 1.0

    def _watch(self) -> None:
        while not self._stop.wait(_LOOK_S):
            try:
                pods = self.cluster.pods(self.namespace, f"app={self.app}")
            except (ApiError, OSError):  # an outage of the API server: those known go on
                continue
            self._ready = [pod for pod in pods if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]]

    def _pace(self) -> None:
        next_s = time.monotonic()
        while not self._stop.is_set():
            if self._ready:
                self.begun_s = self.begun_s or time.monotonic()
                thread = threading.Thread(target=self._ask, daemon=True)
                thread.start()
            next_s += 1 / self.rps
            self._stop.wait(max(0.0, next_s - time.monotonic()))

    def _ask(self) -> None:
        with self._lock:
            ready = list(self._ready)
            pod = min(ready, key=lambda each: self._in_flight[_name(each)])
            self._in_flight[_name(pod)] += 1
        sent_s = time.monotonic()
        try:
            status, body = ask(pod, "/v1/completions", _BODY, timeout_s=60)
            if status == 200:
                self.answered.append((sent_s, time.monotonic() - sent_s))
            else:
                self.failures.append(f"{status}: {body[:100]!r}")
        except OSError as error:
            self.failures.append(repr(error))
        finally:
            with self._lock:
                self._in_flight[_name(pod)] -= 1


def _name(pod: dict[str, object]) -> str:
    metadata = pod["metadata"]
    assert isinstance(metadata, dict)
    return str(metadata["name"])
