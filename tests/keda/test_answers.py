"""What KEDA is told: specs from the metadata alone, numbers that are known, and errors that hold replicas."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import grpc
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from adapters.serving.keda.trigger import MetadataError, trigger_of
from adapters.serving.keda.wire import ScaledObjectRef
from adapters.serving.published import NoNumber, Question, activity_of, number_of
from autoscaler.domain.reading import Measured, Unknown, UnknownReason
from tests.keda.client import Caller, Named, ref_of, refusal
from tests.keda.conftest import Clock
from tests.keda.notes import NOW_S, Notes

TIMEOUT = Unknown(UnknownReason.TIMEOUT, "no answer from 4 of 4 replicas; is the metrics port open to us?")


@pytest.mark.parametrize("desired", [0, 1, 4, 7, 22, 5000])
def test_the_number_is_told_as_a_whole_and_as_a_float(keda: Caller, notes: Notes, desired: int) -> None:
    notes.publish(desired)
    assert keda.metrics() == [Named("desired_replicas", desired, float(desired))]
    assert keda.is_active() is (desired > 0)


@pytest.mark.parametrize(
    ("value", "whole"),
    [
        pytest.param(0.0, 0, id="known zero"),
        pytest.param(0.001, 1, id="a trace"),
        pytest.param(2.5, 3, id="a half"),
        pytest.param(1e30, 2**63 - 1, id="more than the whole number holds"),
    ],
)
def test_a_signal_is_rounded_up_for_those_who_read_whole_numbers(
    keda: Caller, notes: Notes, value: float, whole: int
) -> None:
    notes.publish(3, signals={"queued_requests": value})
    assert keda.metrics(metric="queued_requests") == [Named("queued_requests", whole, value)]


def test_each_variant_has_its_own_number_and_activity(keda: Caller, notes: Notes) -> None:
    notes.publish(5, targets={"full": 5, "slice": 0})
    assert keda.metrics(variant="full") == [Named("desired_replicas", 5, 5.0)]
    assert keda.metrics(variant="slice") == [Named("desired_replicas", 0, 0.0)]
    assert keda.is_active(variant="full")
    assert not keda.is_active(variant="slice")


def test_the_service_is_the_scaled_objects_name_or_what_the_metadata_say(keda: Caller, notes: Notes) -> None:
    notes.publish(4, name="chat")
    notes.publish(9, name="chat", namespace="test")
    assert keda.metrics(name="chat")[0].whole == 4
    assert keda.metrics(name="chat-slices", service="chat")[0].whole == 4
    assert keda.metrics(name="chat", namespace="test")[0].whole == 9


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        pytest.param({}, Named("desired_replicas", 1, 1.0), id="nothing said"),
        pytest.param({"targetSize": "2.5"}, Named("desired_replicas", 3, 2.5), id="target size"),
        pytest.param({"metric": "queued_requests"}, Named("queued_requests", 1, 1.0), id="a signal nobody knows yet"),
        pytest.param(
            {"scalerAddress": "ours:9090", "enableTLS": "true", "fooFromEnv": "x", "targetSize": " 4 "},
            Named("desired_replicas", 4, 4.0),
            id="keys of others",
        ),
    ],
)
def test_the_spec_needs_the_metadata_alone(
    keda: Caller, notes: Notes, clock: Clock, metadata: dict[str, str], expected: Named
) -> None:
    def told() -> list[list[Named]]:
        stream = keda.specs(**metadata)
        try:
            return [keda.spec(**metadata), stream.next()]
        finally:
            stream.cancel()

    before_any_service_is_known = told()
    notes.missing = "the API server has not answered yet"
    while_nothing_can_be_read = told()
    notes.missing = ""
    notes.publish(TIMEOUT)
    clock.at_s += 3600.0
    when_stale_and_unknown = told()
    assert before_any_service_is_known == while_nothing_can_be_read == when_stale_and_unknown == [[expected]] * 2


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        pytest.param({"targetSize": "0"}, ("targetSize", "[0.001", "'0'"), id="target of zero"),
        pytest.param({"targetSize": "-1"}, ("targetSize", "'-1'"), id="negative target"),
        pytest.param({"targetSize": "nan"}, ("targetSize", "'nan'"), id="target that is no number"),
        pytest.param({"targetSize": "inf"}, ("targetSize", "'inf'"), id="target without end"),
        pytest.param({"targetSize": "two"}, ("targetSize", "'two'"), id="target in words"),
        pytest.param({"metric": "a/b"}, ("metric", "'a/b'"), id="slash in the metric"),
        pytest.param({"metric": "x" * 300}, ("metric",), id="metric too long"),
        pytest.param({"metric": " "}, ("metric", "empty"), id="empty metric"),
        pytest.param({"service": ""}, ("service", "empty"), id="empty service"),
        pytest.param(
            {"variant": "full", "metric": "queued_requests"}, ("variant", "queued_requests"), id="variant of a signal"
        ),
        pytest.param({"targetsize": "3"}, ("targetsize", "targetSize"), id="key in other letters"),
    ],
)
def test_metadata_that_make_no_sense_are_refused_by_name(
    keda: Caller, notes: Notes, metadata: dict[str, str], said: tuple[str, ...]
) -> None:
    notes.publish(4)
    calls: tuple[Callable[[], object], ...] = (
        lambda: keda.spec(**metadata),
        lambda: keda.metrics(**metadata),
        lambda: keda.is_active(**metadata),
        lambda: keda.activity(**metadata).next(),
        lambda: keda.specs(**metadata).next(),
    )
    for call in calls:
        code, details = refusal(call)
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert all(part in details for part in said), details


@pytest.mark.parametrize(
    ("metadata", "code", "said"),
    [
        pytest.param(
            {"service": "chatt"}, grpc.StatusCode.NOT_FOUND, ("chatt", "prod", "nearest name is chat"), id="service"
        ),
        pytest.param(
            {"metric": "temperature"}, grpc.StatusCode.NOT_FOUND, ("temperature", "queued_requests"), id="metric"
        ),
        pytest.param({"variant": "half"}, grpc.StatusCode.NOT_FOUND, ("half", "full"), id="variant"),
        pytest.param(
            {"metric": "ttft_s"}, grpc.StatusCode.FAILED_PRECONDITION, ("ttft_s", "NoObservations"), id="unknown value"
        ),
        pytest.param({"metric": "itl_s"}, grpc.StatusCode.FAILED_PRECONDITION, ("itl_s", "nan"), id="not a number"),
    ],
)
def test_what_is_not_there_is_an_error_with_a_way_out(
    keda: Caller, notes: Notes, metadata: dict[str, str], code: grpc.StatusCode, said: tuple[str, ...]
) -> None:
    signals: dict[str, Measured] = {
        "queued_requests": 3.0,
        "ttft_s": Unknown(UnknownReason.NO_OBSERVATIONS),
        "itl_s": math.nan,
    }
    notes.publish(4, targets={"full": 4}, signals=signals)
    found, details = refusal(lambda: keda.metrics(**metadata))
    assert found is code
    assert all(part in details for part in said), details


def test_no_number_is_ever_told_of_an_unknown_desired_count(keda: Caller, notes: Notes) -> None:
    notes.publish(TIMEOUT, targets={"full": 4})
    for call in (
        keda.metrics,
        keda.is_active,
        lambda: keda.metrics(variant="full"),
        lambda: keda.is_active(variant="full"),
    ):
        code, details = refusal(call)
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        assert "desired_replicas of service chat" in details
        assert TIMEOUT.detail in details


def test_an_old_decision_is_no_answer_and_a_new_one_is(keda: Caller, notes: Notes, clock: Clock) -> None:
    notes.publish(4)
    clock.at_s = NOW_S + 15.0
    assert keda.metrics()[0].whole == 4
    said = set()
    for age_s in (15.5, 42.0, 4200.0):
        clock.at_s = NOW_S + age_s
        for call in (keda.metrics, keda.is_active):
            code, details = refusal(call)
            assert code is grpc.StatusCode.FAILED_PRECONDITION
            said.add(details)
    (sentence,) = said
    assert "2027-01-15T08:00:00Z" in sentence
    assert "15 s" in sentence
    notes.publish(5, at_s=clock.at_s)
    assert keda.metrics()[0].whole == 5


def test_a_decision_from_the_future_is_no_answer(keda: Caller, notes: Notes, clock: Clock) -> None:
    notes.publish(4)
    clock.at_s = NOW_S - 10.0
    assert keda.metrics()[0].whole == 4
    clock.at_s = NOW_S - 60.0
    code, details = refusal(keda.metrics)
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "clocks" in details


def test_before_all_services_are_known_it_says_so(keda: Caller, notes: Notes) -> None:
    notes.publish(4)
    notes.missing = "the API server has not answered yet"
    for call in (keda.metrics, keda.is_active):
        code, details = refusal(call)
        assert code is grpc.StatusCode.UNAVAILABLE
        assert notes.missing in details


def test_a_metric_that_the_trigger_does_not_name_is_refused(keda: Caller, notes: Notes) -> None:
    notes.publish(4, signals={"queued_requests": 3.0})
    code, details = refusal(lambda: keda.metrics("queued_requests"))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "queued_requests" in details
    assert "must be desired_replicas" in details
    assert keda.metrics("")[0].metric == "desired_replicas"


@pytest.mark.parametrize(
    ("desired", "queued", "active"),
    [
        pytest.param(2, 0.0, True, id="replicas wanted, nothing queued"),
        pytest.param(0, 0.0, False, id="nothing wanted"),
        pytest.param(0, 7.0, False, id="the decision comes before the signal"),
        pytest.param(TIMEOUT, 7.0, True, id="no decision, work queued"),
        pytest.param(TIMEOUT, 0.0, None, id="no decision, nothing queued"),
        pytest.param(TIMEOUT, TIMEOUT, None, id="nothing known"),
    ],
)
def test_activity_of_a_trigger_on_a_signal(
    keda: Caller, notes: Notes, *, desired: int | Unknown, queued: Measured, active: bool | None
) -> None:
    notes.publish(desired, signals={"queued_requests": queued})
    if active is None:
        assert refusal(lambda: keda.is_active(metric="queued_requests"))[0] is grpc.StatusCode.FAILED_PRECONDITION
    else:
        assert keda.is_active(metric="queued_requests") is active


@pytest.mark.parametrize(
    "data", [pytest.param(b"\xff\xff", id="no protobuf"), pytest.param(b"\x0a\x02\xc3\x28", id="no UTF-8")]
)
def test_bytes_that_are_no_message_are_refused(keda: Caller, data: bytes) -> None:
    for method in ("IsActive", "GetMetricSpec", "GetMetrics"):
        assert refusal(partial(keda.raw, method, data))[0] is grpc.StatusCode.INVALID_ARGUMENT


def test_fields_of_a_later_contract_are_let_pass(keda: Caller, notes: Notes) -> None:
    notes.publish(4)
    later = ref_of("chat", "prod", {}).SerializeToString() + b"\x7a\x03new"
    assert keda.raw("IsActive", later) == b"\x08\x01"


def test_a_message_beyond_all_measure_is_refused(keda: Caller) -> None:
    assert refusal(lambda: keda.spec(notes="x" * 70_000))[0] is grpc.StatusCode.RESOURCE_EXHAUSTED


@given(
    desired=st.one_of(st.integers(0, 10_000), st.just(TIMEOUT)),
    targets=st.dictionaries(st.sampled_from(["full", "slice"]), st.integers(0, 100)),
    signal=st.one_of(st.floats(), st.just(TIMEOUT)),
    metric=st.sampled_from(["desired_replicas", "queued_requests", "nothing"]),
    variant=st.sampled_from([None, "full", "slice"]),
    age_s=st.floats(0.0, 60.0),
)
def test_zero_is_told_only_where_zero_is_known(
    *, desired: int | Unknown, targets: dict[str, int], signal: Measured, metric: str, variant: str | None, age_s: float
) -> None:
    assume(variant is None or metric == "desired_replicas")
    notes = Notes()
    notes.publish(desired, targets=targets, signals={"queued_requests": signal})
    question = Question(namespace="prod", name="chat", metric=metric, variant=variant)
    value = number_of(notes, question, now_s=NOW_S + age_s)
    active = activity_of(notes, question, now_s=NOW_S + age_s)
    if not isinstance(value, NoNumber):
        assert math.isfinite(value)
        assert age_s <= 15.0
        known = {0.0} & {signal, desired, *targets.values()}
        assert value != 0.0 or known
    if active is False:
        assert not isinstance(desired, Unknown)
        assert 0 in {desired, *targets.values()}
    if metric == "desired_replicas" and not isinstance(value, NoNumber):
        assert active is (value > 0)


@given(
    metadata=st.dictionaries(
        st.one_of(st.text(max_size=12), st.sampled_from(["service", "metric", "variant", "targetSize", "TARGETSIZE"])),
        st.one_of(st.text(max_size=12), st.floats().map(str), st.sampled_from(["desired_replicas", "full"])),
    )
)
def test_any_metadata_are_read_or_refused(metadata: dict[str, str]) -> None:
    try:
        trigger = trigger_of(ScaledObjectRef(name="chat", namespace="prod", metadata=metadata))
    except MetadataError as error:
        named, size = [key for key in metadata if str(error).startswith(f"{key}: ")], 1.0
    else:
        named, size = [""], trigger.spec.target_size
    assert named
    assert 0 < size < math.inf
