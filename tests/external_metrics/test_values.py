"""What an HPA reads of the services: never a zero or an empty list for what is not known, and a sentence that helps."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.serving.external.answers import FailedError, Failure
from adapters.serving.external.values import read_metric
from autoscaler.domain.publication import Publication
from autoscaler.domain.reading import Measured, Unknown, UnknownReason
from tests.external_metrics.scene import START_S, Scene, Shelf, a_publication

TIMEOUT = Unknown(UnknownReason.TIMEOUT, "no answer within 2 s from 4 of 4 replicas")
CHAT = a_publication("chat", 3, labels={"team": "a", "model": "llama"}, signals={"waiting_requests": 4.25})
CODE = a_publication("code", 5, labels={"team": "a"}, signals={"waiting_requests": 2.0})
BLIND = a_publication("blind", TIMEOUT, labels={"team": "b"}, signals={"waiting_requests": TIMEOUT})
OLD = a_publication("old", 9, labels={"team": "c"}, at_s=START_S - 31.0, signals={"waiting_requests": 1.0})
EARLY = a_publication("early", 9, labels={"team": "d"}, at_s=START_S + 31.0)
ALL = (CHAT, CODE, BLIND, OLD, EARLY)


def values(
    *publications: Publication, selector: str = "", metric: str = "desired_replicas", now_s: float = START_S
) -> Mapping[str, str]:
    """By service."""
    answer = read_metric(Shelf(publications), namespace="prod", metric=metric, label_selector=selector, now_s=now_s)
    items = json.loads(answer.body)["items"]
    assert {each["metricName"] for each in items} == {metric}
    return {each["metricLabels"]["service"]: each["value"] for each in items}


@pytest.mark.parametrize(
    ("selector", "metric", "expected"),
    [
        pytest.param("service=chat", "desired_replicas", {"chat": "3"}, id="by name"),
        pytest.param("model=llama", "desired_replicas", {"chat": "3"}, id="by label"),
        pytest.param("model", "desired_replicas", {"chat": "3"}, id="by having a label"),
        pytest.param("service=chat,team=a", "desired_replicas", {"chat": "3"}, id="by name and label"),
        pytest.param("team=a", "waiting_requests", {"chat": "4250m", "code": "2"}, id="a sum that was asked for"),
    ],
)
def test_what_matches(selector: str, metric: str, expected: Mapping[str, str]) -> None:
    assert values(*ALL, selector=selector, metric=metric) == expected


SPLIT = a_publication("split", 7, targets=(("h100", 2), ("mig-2g", 5)), labels={"team": "e"})


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param("service=split", "7", id="all together"),
        pytest.param("service=split,variant=h100", "2", id="one variant"),
        pytest.param("variant!=h100,team=e", "5", id="all but one, by a label"),
    ],
)
def test_variants(selector: str, expected: str) -> None:
    assert values(SPLIT, CHAT, selector=selector) == {"split": expected}


@pytest.mark.parametrize(
    ("publication", "selector", "failure", "says"),
    [
        pytest.param(
            SPLIT,
            "service=split,variant",
            Failure.BAD_REQUEST,
            ("2 variants of service split",),
            id="a sum of variants",
        ),
        pytest.param(
            SPLIT, "service=split,variant=l4", Failure.NOT_FOUND, ("no variant", "h100, mig-2g"), id="wrong variant"
        ),
        pytest.param(
            a_publication("split", TIMEOUT),
            "service=split,variant=h100",
            Failure.UNAVAILABLE,
            ("Timeout",),
            id="unknown",
        ),
        pytest.param(
            a_publication("split", 7, targets=(("h100", 7),), at_s=START_S - 31),
            "service=split,variant=h100",
            Failure.UNAVAILABLE,
            ("stale",),
            id="stale",
        ),
    ],
)
def test_errors_of_variants(publication: Publication, selector: str, failure: Failure, says: tuple[str, ...]) -> None:
    with pytest.raises(FailedError) as caught:
        values(publication, selector=selector)
    assert caught.value.failure is failure
    assert [part for part in says if part not in str(caught.value)] == []


def test_no_selector_is_needed_where_there_is_one_service() -> None:
    assert values(CHAT) == {"chat": "3"}


def test_a_label_called_service_does_not_hide_the_name() -> None:
    assert values(a_publication("chat", labels={"service": "code"}), CODE, selector="service=code") == {"code": "5"}
    assert values(a_publication("chat", labels={"service": "code"}), selector="service=chat") == {"chat": "3"}


@pytest.mark.parametrize(
    ("publications", "selector", "metric", "failure", "says"),
    [
        pytest.param(
            ALL,
            "",
            "desired_replicas",
            Failure.BAD_REQUEST,
            ("5 services", "add up", "matchLabels {service: NAME}", "blind, chat, code"),
            id="several and no selector",
        ),
        pytest.param(ALL, "team=a", "desired_replicas", Failure.BAD_REQUEST, ("2 services",), id="sum of replicas"),
        pytest.param(ALL, "", "waiting_requests", Failure.BAD_REQUEST, ("add up",), id="a sum nobody asked for"),
        pytest.param(
            ALL,
            "service=chta",
            "desired_replicas",
            Failure.NOT_FOUND,
            ("no InferenceAutoscaler chta in namespace prod", "blind, chat, code, early, old"),
            id="wrong name",
        ),
        pytest.param(
            ALL, "team=z", "desired_replicas", Failure.NOT_FOUND, ("none of the 5 services", "chat"), id="wrong label"
        ),
        pytest.param(
            (), "service=chat", "desired_replicas", Failure.NOT_FOUND, ("no InferenceAutoscaler in",), id="none at all"
        ),
        pytest.param(
            ALL, "scaledobject.keda.sh/name=x", "s0-x", Failure.NOT_FOUND, ("made by KEDA",), id="KEDA's own HPA"
        ),
        pytest.param(
            ALL,
            "service=chat",
            "waiting",
            Failure.NOT_FOUND,
            ("no metric waiting", "desired_replicas, waiting_requests"),
            id="wrong metric",
        ),
        pytest.param(
            (CHAT, a_publication("code", labels={"team": "a"})),
            "team=a",
            "waiting_requests",
            Failure.NOT_FOUND,
            ("service code",),
            id="a sum that lacks a part",
        ),
        pytest.param(
            ALL,
            "service=blind",
            "desired_replicas",
            Failure.UNAVAILABLE,
            ("unknown (Timeout: no answer within 2 s from 4 of 4 replicas)", "kubectl -n prod describe"),
            id="unknown",
        ),
        pytest.param(
            ALL, "team in (a,b)", "waiting_requests", Failure.UNAVAILABLE, ("service blind",), id="half unknown"
        ),
        pytest.param(ALL, "service=old", "desired_replicas", Failure.UNAVAILABLE, ("after 30 s", "leader"), id="stale"),
        pytest.param(ALL, "team in (a,c)", "waiting_requests", Failure.UNAVAILABLE, ("after 30 s",), id="half stale"),
        pytest.param(ALL, "service=early", "desired_replicas", Failure.UNAVAILABLE, ("clocks",), id="from the future"),
        pytest.param(
            (a_publication("chat", signals={"waiting_requests": float("nan")}),),
            "",
            "waiting_requests",
            Failure.UNAVAILABLE,
            ("is no number",),
            id="no number",
        ),
        pytest.param(ALL, "service==", "desired_replicas", Failure.NOT_FOUND, (), id="empty name"),
        pytest.param(ALL, "service=(", "desired_replicas", Failure.BAD_REQUEST, ("labelSelector",), id="no selector"),
    ],
)
def test_errors_that_hold_the_replicas(
    publications: tuple[Publication, ...], selector: str, metric: str, failure: Failure, says: tuple[str, ...]
) -> None:
    with pytest.raises(FailedError) as caught:
        values(*publications, selector=selector, metric=metric)
    assert caught.value.failure is failure
    assert [part for part in says if part not in str(caught.value)] == []


@pytest.mark.parametrize("name", ["blind", "old", "early"])
def test_a_sentence_stays_the_same_from_read_to_read(name: str) -> None:
    """Else the HPA's condition changes, and an event is written, at each of them."""

    def message(now_s: float) -> str:
        with pytest.raises(FailedError) as caught:
            values(*ALL, selector=f"service={name}", now_s=now_s)
        return str(caught.value)

    assert message(START_S) == message(START_S - 0.9)


def test_long_lists_of_names_are_cut() -> None:
    with pytest.raises(FailedError, match="s-09 and 490 more") as caught:
        values(*(a_publication(f"s-{number:02}") for number in range(500)))
    assert len(str(caught.value)) < 400


def test_stale_to_the_hpa_is_an_error_with_its_text(scene: Scene) -> None:
    assert scene.metric().status == 200
    scene.now_s += 31.0
    reply = scene.metric()
    assert (reply.status, reply.document["reason"]) == (503, "ServiceUnavailable")
    assert "was last decided on at" in reply.message
    assert "retry-after" not in reply.headers
    scene.shelf.put(a_publication("chat", 0, at_s=scene.now_s))
    assert scene.metric().document["items"][0]["value"] == "0"


MEASURED: st.SearchStrategy[Measured] = st.one_of(st.floats(0, 1e6), st.just(TIMEOUT))


@given(
    signals=st.lists(st.tuples(MEASURED, st.floats(-60, 60)), min_size=1, max_size=5),
    asked=st.sets(st.integers(0, 4), min_size=1),
)
def test_a_sum_is_whole_or_an_error(signals: list[tuple[Measured, float]], asked: set[int]) -> None:
    publications = [
        a_publication(f"s{index}", at_s=START_S + offset_s, signals={"waiting_requests": value})
        for index, (value, offset_s) in enumerate(signals)
    ]
    selector = f"service in ({','.join(f's{index}' for index in sorted(asked))})"
    chosen = [signals[index] for index in sorted(asked) if index < len(signals)]
    whole = bool(chosen) and all(isinstance(value, float) and abs(offset_s) <= 30 for value, offset_s in chosen)
    if not whole:
        with pytest.raises(FailedError):
            values(*publications, selector=selector, metric="waiting_requests")
        return
    assert len(values(*publications, selector=selector, metric="waiting_requests")) == len(chosen)
