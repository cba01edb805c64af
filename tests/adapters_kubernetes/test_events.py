"""Events reach the server, few however much happens, and never hold up who tells them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import count
from time import monotonic, sleep

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.kubernetes.connection import KubernetesApi
from adapters.kubernetes.event_folding import EventFolding, EventType, Happening, Limits, NewEvent, Subject
from adapters.kubernetes.events import EventRecorder
from adapters.kubernetes.raw_json import text
from adapters.kubernetes.waiting import EventWaiter
from tests.adapters_kubernetes.scripted_server import Answer, Exchange, ScriptedServer, answered, cut, told

CHAT = Subject(api_version="gpu-autoscaler.io/v1alpha1", kind="InferenceAutoscaler", namespace="shop", name="chat")
PATH = "/apis/events.k8s.io/v1/namespaces/shop/events"


def happened(note: str = "1 -> 3", *, subject: Subject = CHAT) -> Happening:
    """Something happened."""
    return Happening(subject=subject, type=EventType.NORMAL, reason="Scaled", action="Scale", note=note)


def folding(**limits: float) -> EventFolding:
    """With names e1, e2 ..."""
    numbers = count(1)
    return EventFolding(instance="pod-1", tag=lambda: f"e{next(numbers)}", limits=Limits(**limits))  # type: ignore[arg-type]


def test_an_event_is_whole() -> None:
    new = folding().take(happened(), now_s=0.0)
    assert new is not None
    assert new.body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "chat.e1", "namespace": "shop"},
        "eventTime": "1970-01-01T00:00:00.000000Z",
        "reportingController": "gpu-autoscaler.io/controller",
        "reportingInstance": "pod-1",
        "type": "Normal",
        "reason": "Scaled",
        "action": "Scale",
        "regarding": {
            "apiVersion": "gpu-autoscaler.io/v1alpha1",
            "kind": "InferenceAutoscaler",
            "namespace": "shop",
            "name": "chat",
        },
        "note": "1 -> 3",
    }


def test_an_object_without_namespace_has_its_events_in_the_default_one() -> None:
    node = Subject(api_version="v1", kind="Node", namespace="", name="n1", uid="u")
    new = folding().take(happened(subject=node), now_s=0.0)
    assert new is not None
    assert new.namespace == "default"
    assert new.body["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u"}


def test_repetitions_are_one_event_whose_count_is_written_now_and_then() -> None:
    folded = folding(count_every_s=60.0, series_s=600.0)
    assert folded.take(happened(), now_s=0.0) is not None
    for at_s in (10.0, 20.0, 30.0):
        assert folded.take(happened(), now_s=at_s) is None
        assert folded.due(now_s=at_s) == []
    (repeated,) = folded.due(now_s=60.0)
    assert repeated.name == "chat.e1"
    assert repeated.body == {"series": {"count": 4, "lastObservedTime": "1970-01-01T00:00:30.000000Z"}}
    assert folded.due(now_s=120.0) == []
    assert folded.take(happened(), now_s=631.0) is not None, "after a long pause it is a new event"


def test_what_was_left_out_is_told_by_the_next_event() -> None:
    folded = folding(burst=2, refill_s=30.0)
    created = [folded.take(happened(f"note {number}"), now_s=0.0) for number in range(7)]
    assert [event is not None for event in created] == [True, True] + [False] * 5
    late = folded.take(happened("late"), now_s=30.0)
    assert late is not None
    assert late.body["note"] == "late (5 events before this one were left out)"
    other = Subject(api_version="v1", kind="Pod", namespace="shop", name="p")
    assert folded.take(happened(subject=other), now_s=30.0) is not None, "another object has its own share"


@pytest.mark.parametrize("note", [pytest.param("x" * 5000, id="ASCII"), pytest.param("é€😀" * 900, id="Unicode")])
def test_a_note_fits(note: str) -> None:
    folded = folding(burst=1, refill_s=1.0)
    folded.take(happened("first"), now_s=0.0)
    folded.take(happened("second"), now_s=0.0)
    new = folded.take(happened(note), now_s=5.0)
    assert new is not None
    written = text(new.body, "note")
    assert len(written.encode()) <= 1024
    assert written.endswith("left out)")


@given(
    steps=st.lists(st.tuples(st.floats(0.0, 30.0), st.integers(0, 50)), max_size=120),
    burst=st.integers(1, 5),
    refill_s=st.floats(1.0, 60.0),
)
def test_writes_are_bounded_and_every_happening_is_counted(
    steps: list[tuple[float, int]], burst: int, refill_s: float
) -> None:
    folded = folding(burst=burst, refill_s=refill_s)
    at_s, creations, left_out = 0.0, 0, 0
    counts: dict[str, int] = {}
    for gap_s, number in steps:
        at_s += gap_s
        new = folded.take(happened(f"note {number}"), now_s=at_s)
        if new is not None:
            creations += 1
            counts[text(new.body, "metadata", "name")] = 1
            words = text(new.body, "note").partition(" (")[2]
            left_out += int(words.split()[0]) if words else 0
    assert creations <= burst + at_s / refill_s + 1e-6
    for repeated in folded.due(now_s=at_s + 59.0) + folded.due(now_s=at_s + 120.0):
        series = repeated.body["series"]
        assert isinstance(series, dict)
        counts[repeated.name] = series["count"]
    told_later = folded.take(happened("last"), now_s=at_s + 10_000.0)
    assert isinstance(told_later, NewEvent)
    words = text(told_later.body, "note").partition(" (")[2]
    left_out += int(words.split()[0]) if words else 0
    assert sum(counts.values()) + left_out == len(steps)


# Over HTTP


class PromptWaiter(EventWaiter):
    """Lets no time pass."""

    def wait(self, duration_s: float) -> bool:
        return super().wait(0.0)


@pytest.fixture
def lost() -> list[str]:
    """What was reported."""
    return []


@pytest.fixture
def recorder(api: KubernetesApi, lost: list[str]) -> Iterator[EventRecorder]:
    """One that writes to the scripted server."""
    started = EventRecorder(api, instance="pod-1", now_s=lambda: 0.0, report=lost.append, waiter=PromptWaiter())
    started.start()
    yield started
    started.close()


def until(true: Callable[[], bool]) -> None:
    """Wait for an effect of another thread."""
    ends_s = monotonic() + 20.0
    while not true():
        assert monotonic() < ends_s, "it did not come about"
        sleep(0.002)


def say(recorder: EventRecorder, note: str) -> None:
    """Tell of something."""
    recorder.record(CHAT, type=EventType.WARNING, reason="Held", action="Hold", note=note)


def test_events_are_created(server: ScriptedServer, recorder: EventRecorder, lost: list[str]) -> None:
    server.otherwise = answered({})
    say(recorder, "no metrics")
    say(recorder, "no quota")
    until(lambda: len(server.requests) == 2)
    assert [(request.verb, request.path) for request in server.requests] == [("POST", PATH)] * 2
    assert [request.json()["note"] for request in server.requests] == ["no metrics", "no quota"]
    assert lost == []


@pytest.mark.parametrize(
    "failing",
    [pytest.param(cut, id="cut"), pytest.param(told(500, "no"), id="500"), pytest.param(told(429, "no"), id="429")],
)
def test_a_server_that_is_away_for_a_moment_loses_nothing(
    server: ScriptedServer, recorder: EventRecorder, lost: list[str], failing: Answer
) -> None:
    server.answers(failing, failing, told(409, "already exists"))
    server.otherwise = answered({})
    say(recorder, "first")
    say(recorder, "second")
    until(lambda: len(server.requests) == 4)
    notes = [request.json()["note"] for request in server.requests]
    assert notes == ["first", "first", "first", "second"]
    assert len({str(request.json()["metadata"]) for request in server.requests}) == 2, "an attempt is the same event"
    assert lost == []


@pytest.mark.parametrize(
    ("failing", "attempts"),
    [
        pytest.param(told(403, "cannot create events"), 1, id="no rights"),
        pytest.param(told(404, "namespaces shop not found"), 1, id="no namespace"),
        pytest.param(told(503, "etcd is gone"), 6, id="away for long"),
    ],
)
def test_what_cannot_be_written_is_reported_and_the_next_one_is_tried(
    server: ScriptedServer, recorder: EventRecorder, lost: list[str], failing: Answer, attempts: int
) -> None:
    server.answers(*[failing] * attempts)
    server.otherwise = answered({})
    say(recorder, "first")
    say(recorder, "second")
    until(lambda: len(server.requests) == attempts + 1)
    (report,) = lost
    assert report.startswith("the event Held on chat is lost: POST")


def test_a_hung_server_never_holds_up_who_tells(server: ScriptedServer, api: KubernetesApi, lost: list[str]) -> None:
    release = threading.Event()

    def hang(exchange: Exchange) -> None:
        release.wait(timeout=20.0)
        exchange.cut()

    server.answers(hang)
    server.otherwise = answered({})
    recorder = EventRecorder(
        api, instance="pod-1", now_s=lambda: 0.0, report=lost.append, capacity=3, waiter=PromptWaiter()
    )
    recorder.start()
    say(recorder, "held")
    until(lambda: len(server.requests) == 1)
    for number in range(50):
        say(recorder, f"note {number}")
    release.set()
    until(lambda: len(lost) == 1)
    assert lost == ["47 events were lost: too many waited to be written"]
    recorder.close()
    assert [request.json()["note"] for request in server.requests[2:]] == [f"note {number}" for number in range(3)]


def test_what_waits_is_written_at_the_end(server: ScriptedServer, api: KubernetesApi, lost: list[str]) -> None:
    server.otherwise = answered({})
    recorder = EventRecorder(api, instance="pod-1", now_s=lambda: 0.0, report=lost.append)
    for number in range(5):
        say(recorder, f"note {number}")
    recorder.start()
    recorder.close()
    assert [request.json()["note"] for request in server.requests] == [f"note {number}" for number in range(5)]
    assert lost == []
