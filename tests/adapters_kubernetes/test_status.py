"""What the status of a resource says of a decision, and that HPA and KEDA are told the same from it by any replica."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.kubernetes.status import publication_of, refused_status, status_of, worth_writing
from adapters.kubernetes.status_conditions import Circumstances
from autoscaler.config.resource_crd import custom_resource_definition
from autoscaler.domain.plan import Hold, Plan, Reason, ServiceDecision, Stage, StageResult, VariantTarget
from autoscaler.domain.publication import Publication
from autoscaler.domain.publishing import SIGNALS, published
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.resource import RefusedResource, ResourceProblem
from tests.adapters_kubernetes.decisions import DEMAND, NOW_S, decided, holding, resource

STALE_AFTER_S = 45.0
QUIET = Circumstances()


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """Refusing what the API server would drop in silence."""
    closed = copy.deepcopy(schema)
    pending = [closed]
    while pending:
        here = pending.pop()
        if "properties" in here:
            here["additionalProperties"] = False
            pending += here["properties"].values()
        if "items" in here:
            pending.append(here["items"])
    return closed


_ROOT = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
SCHEMA = jsonschema.Draft4Validator(_closed(_ROOT["properties"]["status"]))


def _kept(status: Mapping[str, object]) -> dict[str, Any]:
    """As the API server gives it back: valid, and whole numbers without a point."""

    def number(text: str) -> float:
        value = float(text)
        return int(value) if value.is_integer() and abs(value) < 2**53 else value

    kept: dict[str, Any] = json.loads(json.dumps(status, allow_nan=False), parse_float=number)
    SCHEMA.validate(kept)
    return kept


def _published(decision: ServiceDecision) -> Publication:
    return published(decision, namespace="llm", name="chat", labels=(("app", "chat"),), stale_after_s=STALE_AFTER_S)


def _status(
    decision: ServiceDecision,
    *,
    previous: Mapping[str, object] | None = None,
    circumstances: Circumstances = QUIET,
    now_s: float = NOW_S,
) -> dict[str, Any]:
    return _kept(
        status_of(
            resource("default", "slice"),
            decision,
            _published(decision),
            circumstances=circumstances,
            previous=previous or {},
            now_s=now_s,
        )
    )


def _object(status: Mapping[str, object]) -> dict[str, object]:
    return {"metadata": {"namespace": "llm", "name": "chat", "labels": {"app": "chat"}}, "status": status}


def _condition(status: Mapping[str, Any], kind: str) -> dict[str, Any]:
    (found,) = [each for each in status["conditions"] if each["type"] == kind]
    return dict(found)


_unknowns = st.builds(Unknown, st.sampled_from(list(UnknownReason)), st.text(max_size=60))
_amounts = st.floats(min_value=0, max_value=1e12) | _unknowns
_decisions = st.builds(
    lambda counts, hold, demand, at_s, ready: replace(
        decided(*counts, ready=ready, at_s=at_s, demand=demand), **({} if hold is None else {"outcome": hold})
    ),
    counts=st.lists(st.integers(0, 10_000), min_size=1, max_size=2),
    hold=st.none() | st.builds(Hold, reason=st.sampled_from(list(Reason)), detail=st.text(max_size=60)),
    demand=_unknowns
    | st.builds(
        lambda short, attained, backlog: replace(DEMAND, short_rps=short, attained=attained, backlog=backlog),
        _amounts,
        _amounts,
        _amounts,
    ),
    at_s=st.floats(min_value=1, max_value=4e9),
    ready=st.integers(0, 10_000),
)


@given(_decisions)
def test_what_is_read_is_what_was_written(decision: ServiceDecision) -> None:
    assert publication_of(_object(_status(decision))) == _published(decision)


@given(_decisions)
def test_a_hold_is_never_a_number_and_a_plan_always_is(decision: ServiceDecision) -> None:
    told = publication_of(_object(_status(decision))).desired_replicas
    if isinstance(decision.outcome, Plan):
        assert told == decision.desired
    else:
        assert isinstance(told, Unknown)
        assert decision.outcome.detail in told.detail or decision.outcome.reason is Reason.UNKNOWN_DEMAND


@given(_decisions, _decisions, st.floats(min_value=0, max_value=600))
def test_a_status_may_follow_any_other(first: ServiceDecision, second: ServiceDecision, later_s: float) -> None:
    before = _status(first)
    after = _status(second, previous=before, now_s=NOW_S + later_s)
    old = {(each["type"], each["status"]): each["lastTransitionTime"] for each in before["conditions"]}
    for each in after["conditions"]:
        if (each["type"], each["status"]) in old:
            assert each["lastTransitionTime"] == old[each["type"], each["status"]]
        else:
            assert each["lastTransitionTime"] >= max(old.values())


def test_a_decision_in_full() -> None:
    status = _status(decided(4, 1))
    assert status["observedGeneration"] == 7
    assert status["decidedAt"] == "2026-11-30T12:00:00.250000Z"
    assert (status["desiredReplicas"], status["replicas"]) == (5, 3)
    assert (status["readyReplicas"], status["startingReplicas"]) == (3, 1)
    assert status["targets"] == [
        {"name": "default", "target": "Deployment chat-default", "current": 3, "desired": 4},
        {"name": "slice", "target": "Deployment chat-slice", "current": 0, "desired": 1},
    ]
    assert (status["reason"], status["message"]) == ("MeasuredLoad", "12.5 req/s need it")
    assert [signal["name"] for signal in status["signals"]] == list(SIGNALS)
    assert {"name": "demand_short_rps", "value": 12.5} in status["signals"]
    (change,) = status["lastDecisions"]
    assert (change["from"], change["to"], change["reason"]) == (3, 5, "MeasuredLoad")


def test_signals_end_with_their_unit() -> None:
    assert {name.rsplit("_", 1)[-1] for name in SIGNALS} == {"ratio", "requests", "rps", "seconds", "replicas"}


LIMITED = StageResult(stage=Stage.LIMIT, replicas=10, reason=Reason.MAX_REPLICAS, detail="12 needed, maxReplicas 10")
UNPLACED = StageResult(stage=Stage.PACK, replicas=3, reason=Reason.UNSCHEDULABLE, detail="no node has 8 GPUs free")


@pytest.mark.parametrize(
    ("decision", "circumstances", "expected", "words"),
    [
        pytest.param(decided(3), QUIET, "Ready True Valid", "targets exist", id="ready"),
        pytest.param(
            decided(3),
            Circumstances(unusable=("Deployment chat does not exist",)),
            "Ready False TargetUnusable",
            "Deployment chat does not exist",
            id="target missing",
        ),
        pytest.param(decided(3), QUIET, "Active True ReplicasWanted", "3", id="active"),
        pytest.param(decided(0), QUIET, "Active False ScaledToZero", "no replica", id="at zero"),
        pytest.param(
            holding(Reason.NO_DEVICE_OF_KIND, "no h200 exists"),
            QUIET,
            "Active Unknown NoDeviceOfKind",
            "add nodes",
            id="held",
        ),
        pytest.param(decided(3), QUIET, "Limited False NotLimited", "nothing but the demand", id="not limited"),
        pytest.param(decided(10, stages=(LIMITED,)), QUIET, "Limited True MaxReplicas", "maxReplicas 10", id="limited"),
        pytest.param(decided(3), QUIET, "MetricsKnown True Measured", "engines", id="known"),
        pytest.param(
            holding(Reason.UNKNOWN_DEMAND, demand=Unknown(UnknownReason.UNREACHABLE, "chat-1: connection refused")),
            QUIET,
            "MetricsKnown False Unreachable",
            "connection refused; look whether the pods answer",
            id="unreachable",
        ),
        pytest.param(
            holding(
                Reason.UNKNOWN_DEMAND, demand=replace(DEMAND, short_rps=Unknown(UnknownReason.MISSING_SERIES, "vllm:x"))
            ),
            QUIET,
            "MetricsKnown False MissingSeries",
            "vllm:x",
            id="series missing",
        ),
        pytest.param(
            decided(3, demand=replace(DEMAND, unobserved=("chat-1: timeout",))),
            QUIET,
            "MetricsKnown True PartialCoverage",
            "chat-1: timeout",
            id="one unobserved",
        ),
        pytest.param(decided(3), QUIET, "OwnerConflict False SoleOwner", "nobody else", id="ours"),
        pytest.param(
            holding(Reason.FOREIGN_OWNER, "HorizontalPodAutoscaler chat also writes the replica count"),
            QUIET,
            "OwnerConflict True ForeignOwner",
            "HorizontalPodAutoscaler chat also writes",
            id="foreign owner",
        ),
        pytest.param(
            decided(3),
            Circumstances(conflicts=("InferenceAutoscaler old names Deployment chat too",)),
            "OwnerConflict True ForeignOwner",
            "InferenceAutoscaler old",
            id="two of ours",
        ),
        pytest.param(decided(3), QUIET, "TargetSchedulable True Placed", "no pod", id="placed"),
        pytest.param(
            decided(3, stages=(UNPLACED,)),
            QUIET,
            "TargetSchedulable False Unschedulable",
            "no node has 8 GPUs free",
            id="unschedulable by decision",
        ),
        pytest.param(
            decided(3),
            Circumstances(unschedulable=("chat-x waits for 2 nvidia.com/gpu",)),
            "TargetSchedulable False Unschedulable",
            "waits for 2",
            id="unschedulable pod",
        ),
    ],
)
def test_conditions(decision: ServiceDecision, circumstances: Circumstances, expected: str, words: str) -> None:
    kind, status, reason = expected.split()
    condition = _condition(_status(decision, circumstances=circumstances), kind)
    assert (condition["status"], condition["reason"]) == (status, reason)
    assert words in condition["message"]
    assert condition["observedGeneration"] == 7


def test_only_changes_of_the_number_are_kept_the_newest_first_and_not_for_ever() -> None:
    status: dict[str, Any] = {}
    for tick, count in enumerate([4, 4, 5, 5, 3, *range(10, 30)]):
        decision = decided(count, current=(3,), at_s=NOW_S + tick)
        status = _status(decision, previous=status, now_s=NOW_S + tick)
    past = status["lastDecisions"]
    assert [each["to"] for each in past] == list(range(29, 19, -1))
    assert all(newer["from"] == older["to"] for newer, older in pairwise(past))


def test_a_hold_keeps_the_past_and_the_next_plan_goes_on_from_it() -> None:
    status = _status(decided(5))
    status = _status(holding(Reason.DEVICES_EXHAUSTED), previous=status)
    assert [each["to"] for each in status["lastDecisions"]] == [5]
    assert "desiredReplicas" not in status
    status = _status(decided(6), previous=status)
    assert [(each["from"], each["to"]) for each in status["lastDecisions"]] == [(5, 6), (3, 5)]


def test_a_refused_resource_says_what_is_wrong_and_gives_no_number() -> None:
    refused = RefusedResource(
        namespace="llm",
        name="chat",
        uid="4f1c",
        generation=8,
        problems=(ResourceProblem(path="spec.slo", message="needs at least one threshold"),),
    )
    before = _status(decided(5))
    status = _kept(refused_status(refused, previous=before, stale_after_s=STALE_AFTER_S, now_s=NOW_S + 60))
    ready = _condition(status, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "InvalidSpec")
    assert ready["message"] == "spec.slo: needs at least one threshold"
    assert {each["status"] for each in status["conditions"]} == {"False", "Unknown"}
    told = publication_of(_object(status))
    assert isinstance(told.desired_replicas, Unknown)
    assert "spec.slo: needs at least one threshold" in str(told.desired_replicas)
    assert not told.stale(NOW_S + 61)
    assert status["lastDecisions"] == before["lastDecisions"]


def test_past_decisions_of_another_definition_are_not_carried_on() -> None:
    refused = RefusedResource(
        namespace="llm",
        name="chat",
        uid="4f1c",
        generation=8,
        problems=(ResourceProblem(path="spec.slo", message="needs at least one threshold"),),
    )
    previous = {"lastDecisions": "3 of them", "conditions": 7}
    # Validated against the definition.
    status = _kept(refused_status(refused, previous=previous, stale_after_s=STALE_AFTER_S, now_s=NOW_S))
    assert "lastDecisions" not in status


def test_long_texts_are_cut() -> None:
    decision = holding(Reason.SERVICE_ERROR, "x" * 5000)
    status = _status(decision)  # valid, so within its bounds
    assert status["unknown"]["message"].endswith("x…")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        pytest.param({}, UnknownReason.UNDECIDED, id="none yet"),
        pytest.param({"decidedAt": "yesterday"}, UnknownReason.CONTRADICTION, id="no time"),
        pytest.param({"decidedAt": 5}, UnknownReason.CONTRADICTION, id="a number for a time"),
        pytest.param(
            {"decidedAt": "2026-11-30T12:00:00Z", "staleAfterSeconds": 45}, UnknownReason.CONTRADICTION, id="no number"
        ),
        pytest.param(
            {
                "decidedAt": "2026-11-30T12:00:00Z",
                "staleAfterSeconds": 45,
                "unknown": {"reason": "Unheard", "message": "of a later version"},
            },
            UnknownReason.CONTRADICTION,
            id="a reason of another version",
        ),
        pytest.param(
            {"decidedAt": "2026-11-30T12:00:00Z", "staleAfterSeconds": 45, "desiredReplicas": "3"},
            UnknownReason.CONTRADICTION,
            id="text for a number",
        ),
    ],
)
def test_what_can_not_be_read_is_unknown_and_not_zero(status: Mapping[str, object], reason: UnknownReason) -> None:
    told = publication_of(_object(status))
    assert isinstance(told.desired_replicas, Unknown)
    assert told.desired_replicas.reason is reason
    assert told.desired_replicas.detail
    assert (told.namespace, told.name, told.labels) == ("llm", "chat", (("app", "chat"),))


def test_a_signal_that_is_no_number_is_unknown() -> None:
    status = _status(decided(3, lead_s=1.0, demand=replace(DEMAND, backlog=math.inf)))
    told = publication_of(_object(status)).value("backlog_requests")
    assert isinstance(told, Unknown)


class TestWorthWriting:
    """A status is written when it says something new, and often enough to stay an answer."""

    BEFORE = _status(decided(3))

    def _worth(self, decision: ServiceDecision, *, after_s: float = 1.0) -> bool:
        now_s = NOW_S + after_s
        after = _status(replace(decision, at_s=now_s), previous=self.BEFORE, now_s=now_s)
        return worth_writing(self.BEFORE, after, now_s)

    @pytest.mark.parametrize(
        ("decision", "after_s", "becomes"),
        [
            pytest.param(decided(3), 1.0, "left", id="time alone"),
            pytest.param(decided(3), 14.9, "left", id="not yet old"),
            pytest.param(decided(3), 15.0, "written", id="a third of its life"),
            pytest.param(decided(3), -1.0, "written", id="a clock set back"),
            pytest.param(decided(3, demand=replace(DEMAND, short_rps=99.0)), 1.0, "left", id="another value"),
            pytest.param(decided(4), 1.0, "written", id="another number"),
            pytest.param(decided(3, ready=2), 1.0, "written", id="a replica fewer"),
            pytest.param(holding(Reason.DEVICES_EXHAUSTED), 1.0, "written", id="a hold"),
            pytest.param(
                decided(3, demand=replace(DEMAND, attained=Unknown(UnknownReason.STALE))),
                1.0,
                "written",
                id="a signal lost",
            ),
            pytest.param(decided(3, stages=(LIMITED,)), 1.0, "written", id="a condition"),
        ],
    )
    def test_table(self, decision: ServiceDecision, after_s: float, becomes: str) -> None:
        assert self._worth(decision, after_s=after_s) is (becomes == "written")

    def test_the_first(self) -> None:
        assert worth_writing({}, self.BEFORE, NOW_S)

    @given(_decisions, st.floats(min_value=0, max_value=600))
    def test_readers_never_wait_for_a_new_one_longer_than_it_lasts(
        self, decision: ServiceDecision, after_s: float
    ) -> None:
        if not self._worth(decision, after_s=after_s):
            told = publication_of(_object(self.BEFORE))
            assert not told.stale(NOW_S + after_s + STALE_AFTER_S / 3)
            now = _published(replace(decision, at_s=NOW_S + after_s))
            assert now.desired_replicas == told.desired_replicas


def test_targets_are_told_in_one_order() -> None:
    mixed = Plan(targets=(VariantTarget(variant="slice", replicas=1), VariantTarget(variant="default", replicas=2)))
    decision = decided(3, outcome=mixed)
    assert _published(decision).targets == (("default", 2), ("slice", 1))
    assert publication_of(_object(_status(decision))) == _published(decision)
