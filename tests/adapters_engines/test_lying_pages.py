"""Pages that are well formed and mislead, one after another through the reader and on to what the policy makes of them.

Each is a real page with the values of a public report; docs/reports.md says which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from adapters.engines.page_reader import PageReader
from autoscaler.domain.cluster import Phase, Replica
from autoscaler.domain.params import Params
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.service import ServiceId
from autoscaler.domain.state import ReplicaTrack
from autoscaler.policy.progress import Progress, is_stuck, observe
from tests.adapters_engines.known import SCRAPES, known, read

PARAMS = Params(interval_s=15.0)
BEGIN_S = 10_000.0
LABELS = '{engine="0",model_name="org/tiny"}'
RUNNING, WAITING = f"vllm:num_requests_running{LABELS}", f"vllm:num_requests_waiting{LABELS}"
KV = f"vllm:kv_cache_usage_perc{LABELS}"
TTFT = "vllm:time_to_first_token_seconds"
COMPLETED = 'vllm:request_success_total{engine="0",finished_reason="length",model_name="org/tiny"}'
TOKENS = f"vllm:generation_tokens_total{LABELS}"
CPU_S, STARTED_S = "process_cpu_seconds_total", "process_start_time_seconds"
VLLM = (SCRAPES / "vllm_0.32_cpu_overloaded.prom").read_text()
SGLANG = (SCRAPES / "sglang_0.4_overloaded.prom").read_text()
SGLANG_RUNNING = 'sglang:num_running_reqs{model_name="meta-llama/Llama-3.1-8B-Instruct"}'
TGI = (SCRAPES / "tgi_3_overloaded.prom").read_text()


def with_values(page: str, values: Mapping[str, float]) -> str:
    """The page with these series at these values; each must be there."""
    left = dict(values)
    lines = []
    for line in page.splitlines():
        series = line.rpartition(" ")[0]
        lines.append(f"{series} {left.pop(series)}" if series in left else line)
    assert left == {}
    return "\n".join(lines) + "\n"


def first_tokens(count: float) -> dict[str, float]:
    """vLLM's times to first token, so many of them and all short."""
    buckets = [line.rpartition(" ")[0] for line in VLLM.splitlines() if line.startswith(f"{TTFT}_bucket")]
    return dict.fromkeys([*buckets, f"{TTFT}_count{LABELS}"], count)


def seen(
    pages: Sequence[str], *, every_s: float = 15.0, ready_s: float | None = 0.0
) -> tuple[ReplicaTrack | None, Progress | Unknown, float]:
    """The track, what the last page shows, and the time, after looking at one page each ``every_s``."""
    replica = Replica(name="r", service=ServiceId("s"), variant="v", phase=Phase.READY, created_s=0.0, ready_s=ready_s)
    reader, track, now_s = PageReader(), None, BEGIN_S
    for number, page in enumerate(pages):
        now_s = BEGIN_S + number * every_s
        reading = reader.read(page.encode(), replica="r", at_s=now_s)
        track, done = observe(replica, reading, track, now_s=now_s, params=PARAMS)
    return track, done, now_s


def looks(page: str, heartbeat: str | None = None) -> list[str]:
    """The same page over a minute and a half, its process alive."""
    return [page if heartbeat is None else with_values(page, {heartbeat: 20 + number}) for number in range(7)]


STUCK = {
    "vllm#29928: all requests were aborted, the gauges stay": VLLM,
    "vllm#53130: what is deferred and what runs fill all places": with_values(VLLM, {RUNNING: 28, WAITING: 100}),
    "vllm-metal#479: six wait and none runs": with_values(VLLM, {RUNNING: 0, WAITING: 6, KV: 0}),
    "llm-scaler#391: one runs and fourteen wait, for an hour": with_values(VLLM, {RUNNING: 1, WAITING: 14}),
}


@pytest.mark.parametrize(
    "pages",
    [
        *[pytest.param(looks(page, CPU_S), id=name) for name, page in STUCK.items()],
        pytest.param(
            looks(with_values(SGLANG, {SGLANG_RUNNING: 0})),
            id="sglang#24140: none runs, thousands wait",
        ),
        pytest.param(
            [with_values(TGI, {"tgi_queue_size": 30 + 10 * number}) for number in range(7)],
            id="tgi#2192: the queue of a hung engine only grows",
        ),
    ],
)
def test_work_without_progress_is_stuck(pages: Sequence[str]) -> None:
    track, _, now_s = seen(pages)
    assert is_stuck(track, now_s=now_s, params=PARAMS)
    early, _, then_s = seen(pages[:4])
    assert not is_stuck(early, now_s=then_s, params=PARAMS)


def test_one_token_each_look_is_progress() -> None:
    track, _, now_s = seen([with_values(VLLM, {TOKENS: 24336 + number}) for number in range(7)])
    assert not is_stuck(track, now_s=now_s, params=PARAMS)


def arrivals(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    _, done, _ = seen([with_values(VLLM, before), with_values(VLLM, after)])
    assert isinstance(done, Progress)
    return done.arrivals


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(
            {**first_tokens(8000), COMPLETED: 3900, RUNNING: 12, WAITING: 0},
            {**first_tokens(8060), COMPLETED: 3918, RUNNING: 12, WAITING: 0},
            60,
            id="vllm#8115: 8060 first tokens, 3918 ended well",
        ),
        pytest.param(
            {**first_tokens(100), COMPLETED: 90, RUNNING: 10, WAITING: 0},
            {**first_tokens(120), COMPLETED: 90, RUNNING: 0, WAITING: 0},
            20,
            id="vllm#31503: twenty came and all were aborted",
        ),
        pytest.param(
            {**first_tokens(100), COMPLETED: 68, RUNNING: 32, WAITING: 0},
            {**first_tokens(140), COMPLETED: 108, RUNNING: 32, WAITING: 0},
            40,
            id="vllm-omni#6547: nothing is ever said to wait",
        ),
    ],
)
def test_arrivals_whatever_the_engine_forgets(
    before: Mapping[str, float], after: Mapping[str, float], expected: float
) -> None:
    assert arrivals(before, after) == expected


@pytest.mark.parametrize(
    "fraction",
    [
        pytest.param(0.0, id="none"),
        pytest.param(0.16, id="llm-d-autoscaling#1500: a sixth while requests are dropped"),
        pytest.param(1.0, id="vllm#58004: all of it, held for another engine"),
    ],
)
def test_the_caches_use_says_nothing_of_the_load(fraction: float) -> None:
    told = known(read(with_values(VLLM, {KV: fraction})))
    assert told.pop("kv_fraction") == fraction
    usual = known(read(VLLM))
    del usual["kv_fraction"]
    assert told == usual


def test_a_sum_beside_its_parts_is_counted_once() -> None:
    """vllm#38435: num_requests_waiting_by_reason repeats what num_requests_waiting says."""
    assert "vllm:num_requests_waiting_by_reason" in VLLM
    assert read(VLLM).waiting == 272


def test_a_young_replicas_first_page_counts_from_zero() -> None:
    """prometheus#1673: a rate misses the first sample of a series; here it is the first burst of a new replica."""
    _, done, _ = seen([VLLM], ready_s=BEGIN_S - 20)
    assert isinstance(done, Progress)
    assert (done.arrivals, done.span_s) == (401, 20)
    _, old, _ = seen([VLLM], ready_s=BEGIN_S - 3600)
    assert isinstance(old, Unknown)
    assert old.reason is UnknownReason.WARMING_UP


def test_a_restart_counts_from_zero_and_a_counter_that_ran_back_is_no_load() -> None:
    """prometheus#1892, #15902: a fall is a reset; what it means depends on whether the process is another."""
    after = {**first_tokens(30), COMPLETED: 20, RUNNING: 10, WAITING: 0}
    _, again, _ = seen([VLLM, with_values(VLLM, {**after, STARTED_S: 2e9})])
    assert isinstance(again, Progress)
    assert again.arrivals == 30
    _, back, _ = seen([VLLM, with_values(VLLM, after)])
    assert isinstance(back, Unknown)
    assert back.reason is UnknownReason.RESET


def test_a_page_that_is_served_again_is_no_idleness() -> None:
    idle = (SCRAPES / "vllm_0.32_cpu_idle.prom").read_text()
    _, done, _ = seen([idle] * 14)
    assert isinstance(done, Unknown)
    assert done.reason is UnknownReason.STALE
    alive = [with_values(idle, {CPU_S: 20 + number}) for number in range(14)]
    assert isinstance(seen(alive)[1], Progress)
