"""The JSON API, over the wire."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from autoscaler.codec import from_plain, to_plain
from autoscaler.domain.plan import Reason, ServiceDecision, Stage, StageResult
from autoscaler.domain.service import Service, ServiceId
from autoscaler.ports import UnavailableError

Decide = Callable[..., ServiceDecision]
UNKNOWN = {"kind": "Unknown", "reason": "NoObservations", "detail": "no decision has been made yet"}


def test_the_process_lives(served: Any) -> None:
    assert served.ask("/healthz").json() == {"status": "alive"}
    assert served.ask("/healthz", method="HEAD").status == 200


def test_readiness_follows_the_control_loop(served: Any) -> None:
    before = served.ask("/readyz")
    assert (before.status, before.json()["error"]["kind"]) == (503, "NotReady")
    served.board.ticked(at_s=served.clock.at_s, duration_s=0.1)
    served.clock.at_s += 15
    ready = served.ask("/readyz")
    assert (ready.status, ready.json()["age_s"]) == (200, 15.0)
    served.clock.at_s += 0.5
    stopped = served.ask("/readyz")
    assert stopped.status == 503
    assert "15.5 s old" in stopped.json()["error"]["message"]
    served.board.ticked(at_s=served.clock.at_s, duration_s=0.1)
    assert served.ask("/readyz").status == 200


def test_before_the_first_decision_nothing_is_known(served: Any) -> None:
    listed = served.ask("/api/v1/services").json()
    assert listed["at_s"]["kind"] == "Unknown"
    assert listed["stale"] is True
    (summary,) = listed["services"]
    assert (summary["condition"], summary["stale"]) == ("Waiting", True)
    assert summary["latest"] == summary["at_s"] == summary["age_s"] == UNKNOWN
    assert summary["slo_share"] == 0.99
    assert served.ask("/api/v1/services/chat-8b").json()["decision"] == UNKNOWN
    assert served.ask("/api/v1/services/chat-8b/timeline").json()["points"] == []


@pytest.mark.parametrize("path", ["llm/chat", "llm%2Fchat"])
@pytest.mark.parametrize("end", ["", "/timeline", "/decisions"])
def test_services_of_a_cluster_are_found_by_namespace_and_name(
    serve: Callable[..., Any], service: Callable[..., Service], path: str, end: str
) -> None:
    with serve(services=(service("llm/chat"),)) as running:
        reply = running.ask(f"/api/v1/services/{path}{end}")
        assert reply.status == 200
        assert "llm/chat" in reply.body.decode()


def test_a_summary_tells_the_latest_figures(served: Any, decision: Decide) -> None:
    served.board.publish(decision(at_s=served.clock.at_s, need=5, before=3))
    served.clock.at_s += 2
    listed = served.ask("/api/v1/services").json()
    assert (listed["age_s"], listed["stale"], listed["stale_after_s"]) == (2.0, False, 15.0)
    (summary,) = listed["services"]
    assert (summary["service"], summary["condition"], summary["reason"]) == ("chat-8b", "Growing", "ForecastLoad")
    assert summary["detail"] == "8.00 requests/s by the forecast need 5 replicas."
    assert summary["age_s"] == 2.0
    assert {key: summary["latest"][key] for key in ("desired", "ready", "short_rps", "cost_per_hour")} == {
        "desired": 5,
        "ready": 3,
        "short_rps": 6.0,
        "cost_per_hour": 7.5,
    }


def test_an_unknown_demand_is_said_never_zero(served: Any, decision: Decide) -> None:
    served.board.publish(decision(at_s=served.clock.at_s, blind=True))
    (summary,) = served.ask("/api/v1/services").json()["services"]
    assert (summary["condition"], summary["reason"]) == ("Holding", "UnknownDemand")
    assert summary["detail"] == "No metrics page of the 4 replicas could be read."
    for key in ("short_rps", "stable_rps", "backlog", "attained"):
        assert (summary["latest"][key]["kind"], summary["latest"][key]["reason"]) == ("Unknown", "Timeout")
    assert summary["latest"]["desired"] == 3


@pytest.mark.parametrize(
    ("age_s", "stale"), [pytest.param(15.0, False, id="at the limit"), pytest.param(15.1, True, id="beyond")]
)
def test_old_answers_are_marked(*, served: Any, decision: Decide, age_s: float, stale: bool) -> None:
    served.board.publish(decision(at_s=served.clock.at_s))
    served.clock.at_s += age_s
    for path in ("/api/v1/services", *(f"/api/v1/services/chat-8b{end}" for end in ("", "/timeline", "/decisions"))):
        body = served.ask(path).json()
        assert (body["age_s"], body["stale"]) == (pytest.approx(age_s), stale)
    assert served.ask("/api/v1/services").json()["services"][0]["stale"] is stale


def test_one_old_service_does_not_make_the_list_old(
    serve: Callable[..., Any], service: Callable[..., Service], decision: Decide
) -> None:
    with serve(services=(service("a"), service("b"))) as running:
        running.board.publish(decision("a", at_s=running.clock.at_s))
        running.clock.at_s += 20
        running.board.publish(decision("b", at_s=running.clock.at_s))
        listed = running.ask("/api/v1/services").json()
    assert listed["stale"] is False
    assert [(one["service"], one["stale"]) for one in listed["services"]] == [("a", True), ("b", False)]


def test_a_service_in_full_holds_the_very_decision(served: Any, decision: Decide) -> None:
    made = decision(at_s=served.clock.at_s, need=5, before=3)
    served.board.publish(made)
    detail = served.ask("/api/v1/services/chat-8b").json()
    assert from_plain(ServiceDecision, {k: v for k, v in detail["decision"].items() if k != "kind"}) == made
    assert detail["slo"]["ttft_s"] == 2.0
    assert detail["bounds"] == {"kind": "Bounds", "min_replicas": 1, "max_replicas": 8, "spare": 0}
    assert [(change["before"], change["after"]) for change in detail["changes"]] == [(3, 5)]


def test_the_timeline_is_the_recent_past(served: Any, run_of: Callable[..., list[ServiceDecision]]) -> None:
    run = run_of(minutes=10)
    for made in run:
        served.board.publish(made)
    points = served.ask("/api/v1/services/chat-8b/timeline").json()["points"]
    assert [point["at_s"] for point in points] == [made.at_s for made in run]
    since_s = run[-3].at_s
    later = served.ask(f"/api/v1/services/chat-8b/timeline?since={since_s}").json()["points"]
    assert [point["at_s"] for point in later] == [made.at_s for made in run[-3:]]


class Recorded:
    """A history in memory."""

    def __init__(self, kept: Sequence[ServiceDecision]) -> None:
        self.kept = kept

    def decisions(self, service: ServiceId, since_s: float, until_s: float, limit: int) -> Sequence[ServiceDecision]:
        if service == "broken":
            raise UnavailableError("the disk is gone")
        return [one for one in self.kept if one.service == service and since_s <= one.at_s <= until_s][-limit:]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("", [0, 1, 2, 3], id="all"),
        pytest.param("?limit=2", [2, 3], id="the newest two"),
        pytest.param("?since={1}", [1, 2, 3], id="since"),
        pytest.param("?until={1}&limit=1", [1], id="the one in force at a time"),
        pytest.param("?since={1}&until={2}", [1, 2], id="between"),
    ],
)
def test_past_decisions(
    *,
    serve: Callable[..., Any],
    service: Callable[..., Service],
    run_of: Callable[..., list[ServiceDecision]],
    query: str,
    expected: list[int],
) -> None:
    run = run_of(minutes=1)[:4]
    with serve(services=(service(),), history=Recorded(run)) as running:
        running.clock.at_s = run[-1].at_s
        path = "/api/v1/services/chat-8b/decisions" + query.format(*[made.at_s for made in run])
        found = running.ask(path).json()["decisions"]
    assert found == [json.loads(json.dumps(to_plain(run[index]))) for index in expected]


def test_a_history_that_cannot_be_read_is_said(serve: Callable[..., Any], service: Callable[..., Service]) -> None:
    with serve(services=(service("broken"),), history=Recorded([])) as running:
        reply = running.ask("/api/v1/services/broken/decisions")
    assert reply.status == 503
    assert reply.json()["error"]["kind"] == "UnavailableError"
    assert "the disk is gone" in reply.json()["error"]["message"]


@pytest.mark.parametrize("end", ["", "/timeline", "/decisions"])
def test_an_unknown_service_names_the_nearest(served: Any, end: str) -> None:
    reply = served.ask(f"/api/v1/services/chat-8{end}")
    assert reply.status == 404
    assert reply.json()["error"] == {
        "kind": "UnknownService",
        "message": "no service is called chat-8; the nearest name is chat-8b",
        "nearest": "chat-8b",
    }


def test_without_services_there_is_no_nearest(serve: Callable[..., Any]) -> None:
    with serve(services=()) as running:
        assert "nearest" not in running.ask("/api/v1/services/chat").json()["error"]
        assert running.ask("/api/v1/services").json()["services"] == []


@pytest.mark.parametrize(
    ("query", "told"),
    [
        pytest.param("limit=0", ("limit", "1", "'0'"), id="limit too small"),
        pytest.param("limit=100000", ("limit", "1000", "'100000'"), id="limit too large"),
        pytest.param("since=yesterday", ("since", "number", "'yesterday'"), id="no number"),
        pytest.param("since=nan", ("since", "finite", "'nan'"), id="not a number"),
        pytest.param("until=inf", ("until", "finite", "'inf'"), id="infinite"),
        pytest.param("until=-5", ("until", "0", "'-5'"), id="before the epoch"),
    ],
)
def test_wrong_parameters_are_named(served: Any, query: str, told: tuple[str, ...]) -> None:
    reply = served.ask(f"/api/v1/services/chat-8b/decisions?{query}")
    assert reply.status == 422
    message = reply.json()["error"]["message"]
    assert [word for word in told if word not in message] == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/api/v2/services", 404), ("POST", "/api/v1/services", 405), ("GET", "/static/../auth.py", 404)],
)
def test_other_errors_have_the_same_shape(*, served: Any, method: str, path: str, status: int) -> None:
    reply = served.ask(path, method=method)
    assert reply.status == status
    assert set(reply.json()["error"]) == {"kind", "message"}


def test_a_decision_that_cannot_be_written_spoils_only_itself(
    serve: Callable[..., Any], service: Callable[..., Service], decision: Decide
) -> None:
    stage = StageResult(stage=Stage.SIZE, replicas=1, reason=Reason.STEADY, inputs=(("need_rps", math.inf),))
    with serve(services=(service("bad"), service("good"))) as running:
        at_s = running.clock.at_s
        running.board.publish(replace(decision("bad", at_s=at_s), stages=(stage,), lead_s=math.inf))
        running.board.publish(decision("good", at_s=at_s))
        bad, good = running.ask("/api/v1/services/bad"), running.ask("/api/v1/services/good")
        listed = running.ask("/api/v1/services").json()["services"]
    assert (bad.status, bad.json()["error"]["kind"]) == (500, "NotANumber")
    assert good.status == 200
    assert [one["latest"]["desired"] for one in listed] == [3, 3]
    assert listed[0]["lead_s"]["reason"] == "NotANumber"


def test_large_answers_are_compressed_where_wanted(served: Any, run_of: Callable[..., list[ServiceDecision]]) -> None:
    for made in run_of(minutes=5):
        served.board.publish(made)
    path = "/api/v1/services/chat-8b/timeline"
    plain, packed = served.ask(path), served.ask(path, {"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(packed.body)) == plain.json()
    assert len(packed.body) < len(plain.body) / 4


def test_openapi_describes_every_path(served: Any) -> None:
    described = served.ask("/openapi.json").json()
    assert described["info"]["version"] == "1.2.3"
    assert set(described["paths"]) == {
        "/healthz",
        "/readyz",
        "/metrics",
        "/api/v1/services",
        "/api/v1/services/{name}",
        "/api/v1/services/{name}/timeline",
        "/api/v1/services/{name}/decisions",
        "/api/v1/events",
    }
    assert served.ask("/docs").status == 404
