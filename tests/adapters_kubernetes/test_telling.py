"""What happens to a service is told as events on its resource, as the server gets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from time import monotonic, sleep

import pytest

from adapters.kubernetes.connection import KubernetesApi
from adapters.kubernetes.count_history import ForeignChange
from adapters.kubernetes.events import EventRecorder
from adapters.kubernetes.scaling import NoticeKind, ScaleNotice
from adapters.kubernetes.target_kinds import TARGET_KINDS
from autoscaler.domain.plan import Reason
from autoscaler.domain.resource import Mode
from autoscaler.kubernetes_telling import Telling
from tests.adapters_kubernetes import target_objects as objects
from tests.adapters_kubernetes.decisions import NOW_S, decided, holding, resource
from tests.adapters_kubernetes.scripted_server import ScriptedServer, answered

CHAT = resource()
SCALED = replace(CHAT, mode=Mode.SCALE)
DEPLOYMENT = objects.deployment()
VIEW = next(kind for kind in TARGET_KINDS if kind.kind == "Deployment").read(TARGET_KINDS[0], DEPLOYMENT).views[""]
Told = Callable[[int], list[tuple[str, str, str]]]


@pytest.fixture
def recorder(api: KubernetesApi, server: ScriptedServer) -> Iterator[EventRecorder]:
    server.otherwise = answered({}, 201)
    made = EventRecorder(api, instance="pod-1", now_s=lambda: NOW_S)
    made.start()
    yield made
    made.close()


@pytest.fixture
def told(recorder: EventRecorder, server: ScriptedServer) -> Told:
    """The first so many events: type, reason and note."""

    def get(number: int) -> list[tuple[str, str, str]]:
        ends_s = monotonic() + 20.0
        while len(server.requests) < number:
            assert monotonic() < ends_s, f"{len(server.requests)} of {number} events came"
            sleep(0.002)
        bodies = [request.json() for request in server.requests]
        return [(str(each["type"]), str(each["reason"]), str(each["note"])) for each in bodies]

    return get


def notice(kind: NoticeKind, detail: str = "") -> ScaleNotice:
    return ScaleNotice(kind=kind, resource=SCALED, variant="default", view=VIEW, before=3, after=5, detail=detail)


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        pytest.param(NoticeKind.SCALED, ("Normal", "Scaled"), id="scaled"),
        pytest.param(NoticeKind.SHRINK_HELD, ("Normal", "ShrinkHeld"), id="held"),
        pytest.param(NoticeKind.NOT_MARKED, ("Warning", "PodsNotMarked"), id="not marked"),
    ],
)
def test_what_was_done_is_told_with_the_decision_that_it_follows_from(
    recorder: EventRecorder, told: Told, kind: NoticeKind, event: tuple[str, str]
) -> None:
    telling = Telling(recorder)
    telling.noticed(notice(kind))
    telling.decided(SCALED, decided(5))
    ((*what, note),) = told(1)
    assert tuple(what) == event
    assert note.startswith(f"{VIEW.scaled}: 3 -> 5; {Reason.MEASURED_LOAD}")


def test_a_notice_is_told_once_and_its_own_words_come_first(recorder: EventRecorder, told: Told) -> None:
    telling = Telling(recorder)
    telling.noticed(notice(NoticeKind.SCALED, "a rollout ends first"))
    telling.decided(SCALED, decided(5))
    telling.decided(SCALED, decided(5))
    telling.warned(SCALED, "a VPA evicts")
    assert [note for *_, note in told(2)] == [f"{VIEW.scaled}: 3 -> 5; a rollout ends first", "a VPA evicts"]


def test_in_mode_advise_a_changed_number_is_told_and_the_first_is_not(recorder: EventRecorder, told: Told) -> None:
    telling = Telling(recorder)
    for count in (3, 3, 5):
        telling.decided(CHAT, decided(count))
    telling.decided(CHAT, holding(Reason.UNKNOWN_DEMAND))
    telling.decided(CHAT, decided(2))
    events = told(2)
    assert [(reason, note.partition(";")[0]) for _, reason, note in events] == [
        ("Advised", "3 -> 5"),
        ("Advised", "5 -> 2"),
    ]


def test_counts_that_others_set_name_who_did(recorder: EventRecorder, told: Told) -> None:
    change = ForeignChange(manager="kubectl", at_s=NOW_S, before=5, after=2, answers_us=False)
    Telling(recorder).changed_by_others(SCALED, VIEW, change)
    ((_, reason, note),) = told(1)
    assert reason == "CountChanged"
    assert "kubectl" in note


def test_events_are_on_the_resource_itself(recorder: EventRecorder, told: Told, server: ScriptedServer) -> None:
    Telling(recorder).warned(CHAT, "a VPA evicts")
    told(1)
    assert server.requests[0].json()["regarding"] == {
        "apiVersion": "gpu-autoscaler.io/v1alpha1",
        "kind": "InferenceAutoscaler",
        "namespace": CHAT.namespace,
        "name": CHAT.name,
        "uid": CHAT.uid,
    }
