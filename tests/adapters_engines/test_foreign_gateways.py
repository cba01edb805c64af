"""Pages of gateways that are not ours: how many requests came, by what each one counts and when it counts."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.engines.foreign_gateways import ForeignPageReader, JoinedForeignGateways, Told
from adapters.engines.gateway_onlooking import Onlooker
from autoscaler.domain.gateway import GatewayKind, GatewayPage
from autoscaler.domain.reading import Unknown, UnknownReason

STARTED = "process_start_time_seconds 1000\n"

PICKER = (
    STARTED
    + """\
# TYPE llm_d_epp_request_total counter
llm_d_epp_request_total{model_name="chat",target_model_name="chat-v1"} 100
llm_d_epp_request_total{model_name="chat",target_model_name="chat-v2"} 20
llm_d_epp_request_total{model_name="other",target_model_name="other"} 7
llm_d_epp_request_running{model_name="chat"} 9
llm_d_epp_flow_control_queue_size{fairness_id="a",priority="0",inference_pool="p",model_name="chat"} 4
llm_d_epp_flow_control_queue_size{fairness_id="b",priority="0",inference_pool="p",model_name="chat"} 1
llm_d_epp_flow_control_requests_total{outcome="Dispatched",model_name="chat"} 120
llm_d_epp_flow_control_requests_total{outcome="RejectedCapacity",model_name="chat"} 3
llm_d_epp_flow_control_requests_total{outcome="EvictedTTL",model_name="chat"} 2
"""
)
# Two generations ago it had another name, and no flow control.
OLD_PICKER = """\
inference_model_request_total{model_name="chat",target_model_name="chat"} 50
inference_model_running_requests{model_name="chat"} 6
inference_pool_ready_pods{name="p"} 2
"""
CLUSTER = "outbound|8000||chat.llm.svc.cluster.local"
ENVOY = "".join(
    f'envoy_cluster_upstream_{name}{{envoy_cluster_name="{CLUSTER}"}} {value}\n'
    for name, value in (
        ("rq_total", 130),
        ("rq_retry", 30),
        ("rq_active", 8),
        ("rq_pending_active", 2),
        ("rq_pending_overflow", 5),
    )
)
ISTIO = """\
istio_requests_total{destination_service_name="chat",response_code="200",reporter="source"} 40
istio_requests_total{destination_service_name="chat",response_code="503",reporter="source"} 2
istio_requests_total{destination_service_name="other",response_code="200",reporter="source"} 5
"""
LITELLM = """\
# TYPE litellm_proxy_total_requests_metric_total counter
litellm_proxy_total_requests_metric_total{requested_model="chat",status_code="200"} 11
litellm_proxy_total_requests_metric_total{requested_model="chat",status_code="429"} 4
"""
DYNAMO = """\
dynamo_frontend_requests_total{model="chat",endpoint="chat_completions",status="success"} 70
dynamo_frontend_inflight_requests{model="chat"} 12
dynamo_frontend_queued_requests{model="chat"} 5
"""


def told(kind: GatewayKind, page: str, *, match: tuple[tuple[str, str], ...] = ()) -> Told | Unknown:
    read = ForeignPageReader().read(page.encode(), kind, at_s=2000.0)
    return read if isinstance(read, Unknown) else read.of("llm/chat", match)


@dataclass(frozen=True)
class Case:
    kind: GatewayKind
    page: str
    arrivals: float
    waiting: float | UnknownReason
    in_flight: float | UnknownReason
    at_least: bool = False
    match: tuple[tuple[str, str], ...] = ()


NONE = UnknownReason.NOT_EXPORTED
CASES = {
    # 120 given to a replica, 5 in the queue, 5 turned away; 9 answered now and 5 queued.
    "endpoint picker": Case(GatewayKind.ENDPOINT_PICKER, PICKER, 130, 5, 14),
    "endpoint picker, one target model": Case(
        GatewayKind.ENDPOINT_PICKER, PICKER, 20, 0, 0, match=(("target_model_name", "chat-v2"),)
    ),
    "endpoint picker, old names": Case(GatewayKind.ENDPOINT_PICKER, OLD_PICKER, 50, 0, 6),
    # 130 tries, 30 of them for the second time; 2 wait for a connection; 5 were refused by the circuit breaker.
    "Envoy, retries": Case(GatewayKind.ENVOY, ENVOY, 107, 2, 10, match=(("envoy_cluster_name", CLUSTER),)),
    "Istio, counted at their end": Case(GatewayKind.ISTIO, ISTIO, 42, NONE, NONE, at_least=True),
    "LiteLLM, counted at their end": Case(GatewayKind.LITELLM, LITELLM, 15, NONE, NONE, at_least=True),
    # 70 ended, 12 not yet.
    "Dynamo": Case(GatewayKind.DYNAMO, DYNAMO, 82, 5, 12),
    # Nobody asked for this model yet, or its label is another: what the replicas see counts too.
    "no series yet": Case(
        GatewayKind.ENDPOINT_PICKER,
        OLD_PICKER.replace("chat", "other"),
        0,
        UnknownReason.MISSING_SERIES,
        UnknownReason.MISSING_SERIES,
        at_least=True,
    ),
    "a family is known, without a series": Case(
        GatewayKind.LITELLM, "# TYPE litellm_proxy_total_requests_metric_total counter\n", 0, NONE, NONE, at_least=True
    ),
}


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_what_a_gateway_counts(case: Case) -> None:
    found = told(case.kind, case.page, match=case.match)
    assert isinstance(found, Told)
    assert (found.arrivals, found.at_least) == (case.arrivals, case.at_least)
    for value, wanted in ((found.waiting, case.waiting), (found.in_flight, case.in_flight)):
        assert (value.reason if isinstance(value, Unknown) else value) == wanted


@pytest.mark.parametrize(
    ("kind", "page", "reason"),
    [
        pytest.param(GatewayKind.ENDPOINT_PICKER, STARTED, UnknownReason.MISSING_SERIES, id="another program's page"),
        pytest.param(GatewayKind.LITELLM, "python_info 1\n", UnknownReason.MISSING_SERIES, id="some Python program"),
        pytest.param(GatewayKind.ENVOY, "envoy_server_live 1\n", UnknownReason.MISSING_SERIES, id="no such cluster"),
        pytest.param(GatewayKind.DYNAMO, "", UnknownReason.MISSING_SERIES, id="200 and nothing in it"),
        pytest.param(GatewayKind.DYNAMO, DYNAMO.replace("70", "NaN"), UnknownReason.OUT_OF_RANGE, id="not a number"),
        pytest.param(GatewayKind.DYNAMO, DYNAMO.replace("70", "1e308"), UnknownReason.OUT_OF_RANGE, id="no count"),
        pytest.param(GatewayKind.DYNAMO, DYNAMO.replace("70", "-1"), UnknownReason.OUT_OF_RANGE, id="negative"),
        pytest.param(GatewayKind.ISTIO, "<html>no</html>\n", UnknownReason.MALFORMED_PAGE, id="no metrics page"),
    ],
)
def test_what_can_not_be_told_is_unknown(kind: GatewayKind, page: str, reason: UnknownReason) -> None:
    found = told(kind, page)
    assert isinstance(found, Unknown)
    assert found.reason is reason


def one(
    arrivals: float, *, counted: float | None = None, started_s: float | None = 1000.0, at_s: float = 2001.0
) -> Told:
    return Told(
        at_s=at_s,
        started_s=started_s,
        arrivals=arrivals,
        counted=arrivals if counted is None else counted,
        waiting=0.0,
        in_flight=1.0,
        at_least=False,
    )


def test_several_gateways_are_counted_as_one() -> None:
    joined = JoinedForeignGateways()
    steps: list[tuple[dict[str, Told], float]] = [
        ({"a": one(500, counted=490), "b": one(80)}, 0),  # what was counted before is not of now
        ({"a": one(510, counted=500), "b": one(84)}, 14),
        ({"a": one(509, counted=505), "b": one(84)}, 14),  # its gauge was read before its counter
        ({"a": one(512, counted=508), "b": one(84)}, 16),
        ({"a": one(3, counted=3, started_s=2003.0), "b": one(84)}, 19),  # a new start has counted three
        ({"b": one(85), "c": one(6, started_s=2500.0)}, 26),  # one comes, one goes
        ({"b": one(2), "c": one(6, started_s=2500.0)}, 26),  # a process can't count back
        ({"b": one(4, started_s=2600.0), "c": one(9, started_s=None)}, 33),  # a start that is not told this time
    ]
    for number, (seen, arrivals) in enumerate(steps):
        reading = joined.join("llm/chat", seen, at_s=2001.0 + number)
        assert reading.arrivals == arrivals, number
        assert reading.in_flight == len(seen)
        assert reading.started_s == 2001.0


def test_processes_that_answer_in_turn_are_told_apart() -> None:
    joined = JoinedForeignGateways()
    for number in range(10):
        first = joined.join("s", {"a": one(500 + number, started_s=1000.0)}, at_s=2001.0)
        second = joined.join("s", {"a": one(80 + number, started_s=1001.0)}, at_s=2001.0)
        assert (first.arrivals, second.arrivals) == (max(0, 2 * number - 1 + (number == 0)), 2 * number)


def test_without_a_start_a_count_that_runs_back_is_a_new_start() -> None:
    joined = JoinedForeignGateways()
    told = [joined.join("s", {"a": one(value, started_s=None)}, at_s=2001.0).arrivals for value in (50, 53, 2, 4)]
    assert told == [0, 3, 5, 7]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=30))
def test_a_stock_is_followed_to_its_highest(steps: list[tuple[int, int]]) -> None:
    """Ended requests never run back; those in flight do. No arrival is counted twice, none after its peak is lost."""
    joined, ended, highest = JoinedForeignGateways(), 0, 0.0
    first = None
    for came, in_flight in steps:
        ended += came
        reading = joined.join("s", {"a": one(ended + in_flight, counted=ended)}, at_s=2001.0)
        first = float(ended + in_flight) if first is None else first
        highest = max(highest, ended + in_flight)
        assert reading.arrivals == highest - first


def test_somebody_asks_for_a_service_at_zero() -> None:
    onlooker, services = Onlooker(), frozenset({"llm/chat"})
    page = GatewayPage(name="epp", url="http://epp/metrics", kind=GatewayKind.LITELLM)
    assert onlooker.url(page) == page.url
    assert onlooker.waiting(page, LITELLM.encode(), services) == frozenset()
    assert onlooker.waiting(page, LITELLM.replace("11", "12").encode(), services) == services
    assert onlooker.waiting(page, LITELLM.replace("11", "12").encode(), services) == frozenset()
    assert onlooker.waiting(page, b"<html>", services) == frozenset()
    # While it has replicas nobody looks: what was asked then is no demand when it is at zero again.
    onlooker.keep_only({})
    assert onlooker.waiting(page, LITELLM.replace("11", "90").encode(), services) == frozenset()
    assert onlooker.waiting(page, LITELLM.replace("11", "91").encode(), services) == services
    queued = GatewayPage(name="epp", url="http://epp/metrics", kind=GatewayKind.ENDPOINT_PICKER)
    assert onlooker.waiting(queued, PICKER.encode(), services) == services
