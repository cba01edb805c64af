"""Triton's statistics as both of its protocols tell them; what is no statistics is no number."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from adapters.engines.page_reader import PageReader
from adapters.engines.triton_statistics import Executions, WithStatistics, executions_of
from autoscaler.domain.cluster import ClusterSnapshot, Phase, Replica
from autoscaler.domain.reading import EngineReading, Observations, Unknown, UnknownReason
from autoscaler.domain.service import Engine, ServiceId, StatisticsApi, StatisticsProtocol
from tests.adapters_engines.conftest import Serve

TRITON_PAGE = b"""\
nv_inference_request_success{model="m",version="1"} 4
nv_inference_count{model="m",version="1"} 4
nv_inference_exec_count{model="m",version="1"} 2
nv_inference_request_duration_us{model="m",version="1"} 400
nv_inference_queue_duration_us{model="m",version="1"} 10
nv_inference_pending_request_count{model="m",version="1"} 0
"""

# Of a server of nvidia-pytriton 0.7.0 whose model sleeps 50 ms and 10 ms an item: 27 executions of 200 requests.
OVER_HTTP = {
    "model_stats": [
        {
            "name": "batcher",
            "version": "1",
            "inference_count": 200,
            "execution_count": 27,
            "batch_stats": [
                {
                    "batch_size": 1,
                    "compute_input": {"count": 1, "ns": 178576},
                    "compute_infer": {"count": 1, "ns": 85898800},
                    "compute_output": {"count": 1, "ns": 149303},
                },
                {
                    "batch_size": 2,
                    "compute_input": {"count": 1, "ns": 29234},
                    "compute_infer": {"count": 1, "ns": 70939921},
                    "compute_output": {"count": 1, "ns": 234469},
                },
                {
                    "batch_size": 5,
                    "compute_input": {"count": 1, "ns": 62343},
                    "compute_infer": {"count": 1, "ns": 101365728},
                    "compute_output": {"count": 1, "ns": 344143},
                },
                {
                    "batch_size": 8,
                    "compute_input": {"count": 24, "ns": 5530178},
                    "compute_infer": {"count": 24, "ns": 3152279180},
                    "compute_output": {"count": 24, "ns": 9720590},
                },
            ],
        }
    ]
}


def as_text(value: object) -> object:
    """As protobuf's JSON has it: 64-bit integers are text."""
    if isinstance(value, dict):
        return {key: as_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_text(item) for item in value]
    return str(value) if isinstance(value, int) else value


@pytest.mark.parametrize("answer", [pytest.param(OVER_HTTP, id="http"), pytest.param(as_text(OVER_HTTP), id="grpc")])
def test_each_execution_counts_once(answer: object) -> None:
    """By hand: 86.226679 + 71.203624 + 101.772214 + 3167.529948 ms; 1 + 2 + 5 + 24 x 8 items."""
    found = executions_of(answer)
    assert isinstance(found, Executions)
    assert (found.count, found.items) == (27.0, 200.0)
    assert found.time_s == pytest.approx(3.426732465)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({}, id="no model"),
        pytest.param({"model_stats": [{"name": "loaded", "version": "1"}]}, id="no execution yet"),
        pytest.param({"model_stats": [{"batch_stats": [{"batch_size": "4"}]}]}, id="zeros left out"),
    ],
)
def test_what_did_not_happen_is_a_known_zero(answer: object) -> None:
    assert executions_of(answer) == Executions(count=0.0, items=0.0, time_s=0.0)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param([], UnknownReason.MALFORMED_PAGE, id="list"),
        pytest.param(None, UnknownReason.MALFORMED_PAGE, id="nothing"),
        pytest.param({"model_stats": {}}, UnknownReason.MALFORMED_PAGE, id="mapping for a list"),
        pytest.param({"model_stats": [{"batch_stats": ["x"]}]}, UnknownReason.MALFORMED_PAGE, id="text for a mapping"),
        pytest.param(
            {"model_stats": [{"batch_stats": [{"batch_size": "many", "compute_infer": {"count": 1}}]}]},
            UnknownReason.MALFORMED_PAGE,
            id="words for a number",
        ),
        pytest.param(
            {"model_stats": [{"batch_stats": [{"batch_size": 1, "compute_infer": {"count": -1}}]}]},
            UnknownReason.OUT_OF_RANGE,
            id="below zero",
        ),
        pytest.param(
            {"model_stats": [{"batch_stats": [{"batch_size": 1, "compute_infer": {"count": "9" * 400}}]}]},
            UnknownReason.OUT_OF_RANGE,
            id="more than any counter holds",
        ),
    ],
)
def test_what_is_no_statistics_is_unknown(answer: object, reason: UnknownReason) -> None:
    found = executions_of(answer)
    assert isinstance(found, Unknown)
    assert found.reason is reason


HUGE = st.integers(min_value=300, max_value=400).map(lambda digits: 10**digits)
SCALARS = st.none() | st.booleans() | st.integers() | HUGE | HUGE.map(str) | st.floats() | st.text(max_size=8)
KEYS = st.sampled_from(
    ["model_stats", "batch_stats", "batch_size", "compute_input", "compute_infer", "compute_output", "count", "ns"]
)
ANSWERS = st.recursive(SCALARS, lambda part: st.lists(part, max_size=3) | st.dictionaries(KEYS, part, max_size=5))


@given(ANSWERS)
def test_no_answer_raises_or_gives_a_number_below_zero(answer: object) -> None:
    found = executions_of(answer)
    assert isinstance(found, Unknown) or min(found.count, found.items, found.time_s) >= 0


class _Pages:
    """Every replica has a page."""

    def read(self, snapshot: ClusterSnapshot) -> Observations:
        page = PageReader().read(TRITON_PAGE, replica="timed-1", at_s=snapshot.at_s, engine=Engine.TRITON)
        return Observations(at_s=snapshot.at_s, engines={each.name: page for each in snapshot.replicas}, gateways={})


def answering(body: bytes, *, status: int = 200) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body, status=status, content_type="application/json")

    return answer


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(b"<html>", 200, id="no JSON"),
        pytest.param(b"\xff\xfe", 200, id="no text"),
        pytest.param(b"", 200, id="nothing"),
        pytest.param(b"[" * 100_000, 200, id="too deep"),
        pytest.param(b"[1]", 200, id="a list"),
        pytest.param(b"[1]", 500, id="an error that is no object"),
        pytest.param(b'{"error": "no such model"}', 400, id="an error"),
        pytest.param(b"\xff", 503, id="an error in no text"),
    ],
)
def test_a_server_that_answers_nonsense_keeps_its_page_and_a_warning(serve: Serve, body: bytes, status: int) -> None:
    url = serve(answering(body, status=status))
    port = int(url.rpartition(":")[2])
    replica = Replica(
        name="timed-1",
        service=ServiceId("timed"),
        variant="default",
        phase=Phase.READY,
        created_s=0.0,
        metrics_url=f"{url}/metrics",
    )
    snapshot = ClusterSnapshot(at_s=5.0, devices=(), replicas=(replica,), targets=())
    api = StatisticsApi(protocol=StatisticsProtocol.HTTP, port=port)
    source = WithStatistics(_Pages(), apis={ServiceId("timed"): api}, timeout_s=30.0)
    try:
        reading = source.read(snapshot).engines["timed-1"]
    finally:
        source.close()
    assert isinstance(reading, EngineReading)
    assert isinstance(reading.exec_time_s, Unknown)
    assert any("no statistics" in warning for warning in reading.warnings)


class _NoPages:
    """A source whose replicas have no page now."""

    def read(self, snapshot: ClusterSnapshot) -> Observations:
        unreachable = Unknown(UnknownReason.UNREACHABLE)
        return Observations(
            at_s=snapshot.at_s, engines={each.name: unreachable for each in snapshot.replicas}, gateways={}
        )


@pytest.mark.parametrize("protocol", list(StatisticsProtocol))
def test_statistics_take_no_pages_place(protocol: StatisticsProtocol) -> None:
    replica = Replica(
        name="timed-1",
        service=ServiceId("timed"),
        variant="default",
        phase=Phase.READY,
        created_s=0.0,
        metrics_url="http://127.0.0.1:1/metrics",
    )
    snapshot = ClusterSnapshot(at_s=5.0, devices=(), replicas=(replica,), targets=())
    source = WithStatistics(_NoPages(), apis={ServiceId("timed"): StatisticsApi(protocol=protocol, port=1)})
    assert source.read(snapshot) == _NoPages().read(snapshot)
    source.close()
