"""Ranges, duplicates, contradictions, ranks: one bad signal is unknown, the others stay."""

from __future__ import annotations

import pytest

from adapters.engines.cache import BoundedCache
from adapters.engines.page_reader import PageReader
from autoscaler.domain.reading import EngineReading, Histogram, Unknown, UnknownReason
from autoscaler.domain.service import Engine

GOOD = {
    "vllm:num_requests_running": 4.0,
    "vllm:num_requests_waiting": 2.0,
    "vllm:kv_cache_usage_perc": 0.5,
    "vllm:prompt_tokens_total": 300.0,
}


def read(page: str) -> EngineReading:
    reading = PageReader().read(page.encode(), replica="r", at_s=0.0)
    assert isinstance(reading, EngineReading), reading
    return reading


def page_of(values: dict[str, str]) -> str:
    named = {name: str(value) for name, value in GOOD.items()} | values
    return "".join([f'{name}{{model_name="m"}} {value}\n' for name, value in named.items()])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param("NaN", UnknownReason.NOT_A_NUMBER, id="NaN"),
        pytest.param("-1", UnknownReason.OUT_OF_RANGE, id="negative"),
        pytest.param("+Inf", UnknownReason.OUT_OF_RANGE, id="infinite"),
        pytest.param("-Inf", UnknownReason.OUT_OF_RANGE, id="minus infinite"),
        pytest.param("9223372036854775807", UnknownReason.OUT_OF_RANGE, id="a sentinel"),
        pytest.param("1e400", UnknownReason.OUT_OF_RANGE, id="more than a float holds"),
    ],
)
@pytest.mark.parametrize(
    ("family", "signal"),
    [
        ("vllm:num_requests_running", "running"),
        ("vllm:num_requests_waiting", "waiting"),
        ("vllm:kv_cache_usage_perc", "kv_fraction"),
        ("vllm:prompt_tokens_total", "prompt_tokens"),
    ],
)
def test_a_senseless_value_makes_its_own_signal_unknown(
    family: str, signal: str, value: str, reason: UnknownReason
) -> None:
    reading = read(page_of({family: value}))
    bad = getattr(reading, signal)
    assert isinstance(bad, Unknown)
    assert bad.reason is reason
    assert family in bad.detail
    others = {"running": 4.0, "waiting": 2.0, "kv_fraction": 0.5, "prompt_tokens": 300.0}
    del others[signal]
    assert {name: getattr(reading, name) for name in others} == others


@pytest.mark.parametrize(
    ("value", "known"),
    [
        pytest.param("1.0", True, id="full"),
        pytest.param("1.0000001", True, id="a rounding error above"),
        pytest.param("1.01", False, id="above"),
        pytest.param("50", False, id="percent"),
    ],
)
def test_a_fraction_is_not_clamped(*, value: str, known: bool) -> None:
    fraction = read(page_of({"vllm:kv_cache_usage_perc": value})).kv_fraction
    if known:
        assert fraction == float(value)
    else:
        assert isinstance(fraction, Unknown)
        assert fraction.reason is UnknownReason.OUT_OF_RANGE


RUNNING = "vllm:num_requests_running"


@pytest.mark.parametrize(
    ("lines", "running"),
    [
        pytest.param(['{engine="0"} 4', '{engine="1"} 5'], 9.0, id="engines add up"),
        pytest.param(['{engine="0"} 4', '{engine="0"} 4'], 4.0, id="printed twice"),
        pytest.param(['{engine="0",model_name="m"} 4', '{model_name="m",engine="0"} 4'], 4.0, id="labels reordered"),
        pytest.param(['{engine="0"} 4', '{engine="0"} 5'], UnknownReason.CONTRADICTION, id="printed twice, differing"),
        pytest.param(['{engine="0",pid="7"} 4', '{engine="0",pid="8"} 4'], 4.0, id="pid is no rank"),
        pytest.param(['{tp_rank="0"} 4', '{tp_rank="1"} 3'], 4.0, id="tensor-parallel ranks repeat"),
        pytest.param(['{pp_rank="0"} 4', '{pp_rank="1"} 4'], 4.0, id="pipeline ranks repeat"),
        pytest.param(
            ['{engine="0",tp_rank="0"} 4', '{engine="0",tp_rank="1"} 4', '{engine="1",tp_rank="0"} 5'],
            9.0,
            id="both kinds of rank",
        ),
        pytest.param(['{engine="0"} 4', '{engine="1"} NaN'], UnknownReason.NOT_A_NUMBER, id="one engine unknown"),
        pytest.param(['{engine="0"} 9e15', '{engine="1"} 9e15'], UnknownReason.OUT_OF_RANGE, id="absurd sum"),
        pytest.param(["{} 4"], 4.0, id="no labels"),
        pytest.param([" 4 1712345678901"], 4.0, id="a timestamp"),
    ],
)
def test_series_of_one_family_combine_by_their_labels(lines: list[str], running: float | UnknownReason) -> None:
    page = "".join([f"{RUNNING}{line}\n" for line in lines]) + 'vllm:num_requests_waiting{model_name="m"} 2\n'
    reading = read(page)
    seen = reading.running.reason if isinstance(reading.running, Unknown) else reading.running
    assert seen == running
    assert reading.waiting == 2.0


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        pytest.param("gauge", None, id="as expected"),
        pytest.param("untyped", None, id="untyped"),
        pytest.param("counter", UnknownReason.CONTRADICTION, id="a counter"),
        pytest.param("histogram", UnknownReason.CONTRADICTION, id="a histogram"),
        pytest.param("summary", UnknownReason.CONTRADICTION, id="a summary"),
    ],
)
def test_a_gauge_declared_something_else_is_not_used(kind: str, reason: UnknownReason | None) -> None:
    reading = read(f"# TYPE {RUNNING} {kind}\n" + page_of({}))
    seen = reading.running.reason if isinstance(reading.running, Unknown) else None
    assert seen is reason


@pytest.mark.parametrize("kind", ["gauge", "counter", "summary"])
def test_a_histogram_declared_something_else_is_not_used(kind: str) -> None:
    page = page_of({}) + f"# TYPE {TTFT} {kind}\n" + histogram([1, 2, 3], 3, 1.0)
    ttft = read(page).ttft
    assert isinstance(ttft, Unknown)
    assert ttft.reason is UnknownReason.CONTRADICTION


def test_a_counter_may_be_declared_under_its_openmetrics_name() -> None:
    page = page_of({}) + "# TYPE vllm:num_preemptions counter\nvllm:num_preemptions_total 3\n# EOF\n"
    assert read(page).preemptions == 3.0


TTFT = "vllm:time_to_first_token_seconds"


def histogram(
    counts: list[float], count: float | None, total: float | None, *, labels: str = "", bounds: str = "0.1 0.5 +Inf"
) -> str:
    text = "".join([f'{TTFT}_bucket{{{labels}le="{b}"}} {n}\n' for b, n in zip(bounds.split(), counts, strict=True)])
    plain = f"{{{labels}}}" if labels else ""
    text += "" if count is None else f"{TTFT}_count{plain} {count}\n"
    return text + ("" if total is None else f"{TTFT}_sum{plain} {total}\n")


ENGINE_0, ENGINE_1 = 'engine="0",', 'engine="1",'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(histogram([1, 2, 3], 3, 1.5), Histogram((0.1, 0.5), (1, 2), 3, 1.5), id="plain"),
        pytest.param(
            histogram([3, 1, 2], 3, 1.5, bounds="+Inf 0.1 0.5"), Histogram((0.1, 0.5), (1, 2), 3, 1.5), id="any order"
        ),
        pytest.param(histogram([1, 2], 3, 1.5, bounds="0.1 0.5"), Histogram((0.1, 0.5), (1, 2), 3, 1.5), id="no +Inf"),
        pytest.param(histogram([], 3, 1.5, bounds=""), Histogram((), (), 3, 1.5), id="no buckets"),
        pytest.param(histogram([0, 0, 0], 0, 0), Histogram((0.1, 0.5), (0, 0), 0, 0), id="no observations"),
        pytest.param(
            histogram([1, 2, 3], 3, 1.5, labels=ENGINE_0) + histogram([4, 5, 6], 6, 2.5, labels=ENGINE_1),
            Histogram((0.1, 0.5), (5, 7), 9, 4.0),
            id="engines add up",
        ),
        pytest.param(
            histogram([1, 2, 3], 3, 1.5, labels='tp_rank="0",') + histogram([1, 2, 2], 2, 1.5, labels='tp_rank="1",'),
            Histogram((0.1, 0.5), (1, 2), 3, 1.5),
            id="tensor-parallel ranks repeat",
        ),
        pytest.param(
            histogram([1, 2, 3], 3, 1.5) + histogram([1, 2, 3], 3, 1.5),
            Histogram((0.1, 0.5), (1, 2), 3, 1.5),
            id="printed twice",
        ),
        pytest.param(
            histogram([1, 2, 3], 3, 1.5) + histogram([1, 1, 3], 3, 1.5),
            UnknownReason.CONTRADICTION,
            id="printed twice, differing",
        ),
        pytest.param(
            histogram([1, 2, 3], 3, 1.5, labels=ENGINE_0) + histogram([4, 6], 6, 2.5, labels=ENGINE_1, bounds="1 +Inf"),
            UnknownReason.CONTRADICTION,
            id="bounds differ",
        ),
        pytest.param(
            histogram([1, 2, 3], 3, 1.5, labels=ENGINE_0) + histogram([4, 5, 6], 7, 2.5, labels=ENGINE_1),
            UnknownReason.CONTRADICTION,
            id="one engine contradicts itself",
        ),
        pytest.param(histogram([2, 1, 3], 3, 1.5), UnknownReason.CONTRADICTION, id="not cumulative"),
        pytest.param(histogram([1, 2, 3], 2, 1.5), UnknownReason.CONTRADICTION, id="count below its buckets"),
        pytest.param(histogram([1, 2, 3], 4, 1.5), UnknownReason.CONTRADICTION, id="count above its +Inf bucket"),
        pytest.param(histogram([-1, 2, 3], 3, 1.5), UnknownReason.OUT_OF_RANGE, id="negative bucket"),
        pytest.param(histogram([1, 2, 3], 3, -1.5), UnknownReason.OUT_OF_RANGE, id="negative sum"),
        pytest.param(histogram([1, 2, float("inf")], 3, 1.5), UnknownReason.OUT_OF_RANGE, id="infinite bucket"),
        pytest.param(histogram([1, float("nan"), 3], 3, 1.5), UnknownReason.NOT_A_NUMBER, id="NaN bucket"),
        pytest.param(histogram([1, 2, 3], 3, float("nan")), UnknownReason.NOT_A_NUMBER, id="NaN sum"),
        pytest.param(histogram([1, 2, 3], float("nan"), 1.5), UnknownReason.NOT_A_NUMBER, id="NaN count"),
        pytest.param(histogram([1, 2, 1e17], 1e17, 1.5), UnknownReason.OUT_OF_RANGE, id="absurd count"),
        pytest.param(histogram([1, 2, 3], None, 1.5), UnknownReason.MISSING_SERIES, id="no count"),
        pytest.param(histogram([1, 2, 3], 3, None), UnknownReason.MISSING_SERIES, id="no sum"),
        pytest.param(f"{TTFT}_bucket 3\n", UnknownReason.MALFORMED_PAGE, id="bucket without a bound"),
        pytest.param(
            histogram([1, 2, 3], 3, 1.5, bounds="a b +Inf"), UnknownReason.MALFORMED_PAGE, id="bounds no numbers"
        ),
        pytest.param(
            histogram([1, 2, 3], 3, 1.5, bounds="0.1 NaN +Inf"), UnknownReason.MALFORMED_PAGE, id="a bound is NaN"
        ),
        pytest.param(f"# TYPE {TTFT} histogram\n", UnknownReason.MISSING_SERIES, id="declared only"),
        pytest.param("", UnknownReason.MISSING_SERIES, id="absent"),
    ],
)
def test_histograms(text: str, expected: Histogram | UnknownReason) -> None:
    reading = read(page_of({}) + text)
    seen = reading.ttft.reason if isinstance(reading.ttft, Unknown) else reading.ttft
    assert seen == expected
    assert reading.running == 4.0


def test_a_page_read_again_with_other_values_gives_the_new_ones(overloaded_page: bytes) -> None:
    reader = PageReader()
    running = b'running{engine="0",model_name="org/tiny"} '
    for value in (128.0, 64.0, 0.0, 5.0):
        page = overloaded_page.replace(running + b"128.0", running + str(value).encode())
        reading = reader.read(page, replica="r", at_s=value)
        assert isinstance(reading, EngineReading)
        assert (reading.running, reading.at_s, reading.waiting) == (value, value, 272.0)


def test_each_replica_and_setting_gets_its_own_answer() -> None:
    reader = PageReader()
    vllm, other = page_of({}).encode(), b"something_else 1\n"
    for _ in range(2):
        assert isinstance(reader.read(vllm, replica="a", at_s=0.0), EngineReading)
        assert isinstance(reader.read(other, replica="b", at_s=0.0), Unknown)
        assert isinstance(reader.read(vllm, replica="b", at_s=0.0, engine=Engine.VLLM), EngineReading)
        assert isinstance(reader.read(vllm, replica="a", at_s=0.0, model="not m"), Unknown)
        assert isinstance(reader.read(vllm, replica="a", at_s=0.0, model="m"), EngineReading)


def test_an_appearing_series_counts_at_once() -> None:
    reader = PageReader()
    first = "vllm:num_requests_waiting 0\n" + RUNNING + '{engine="0"} 1\n'
    for page, running in ((first, 1.0), (first + RUNNING + '{engine="1"} 2\n', 3.0), (first, 1.0)):
        reading = reader.read(page.encode(), replica="r", at_s=0.0)
        assert isinstance(reading, EngineReading)
        assert reading.running == running


def test_ever_changing_labels_fill_no_memory() -> None:
    reader = PageReader(cache_bytes=400_000)
    for start in range(0, 5_000, 100):
        page = page_of({}) + "".join(
            [f'vllm:prompt_tokens_total{{model_name="x{i}"}} 1\n' for i in range(start, start + 100)]
        )
        reading = reader.read(page.encode(), replica=f"r{start % 7}", at_s=0.0)
        assert isinstance(reading, EngineReading)
        assert reading.prompt_tokens == 400.0
        assert reader.held_bytes <= 425_000
    reader.keep_only([])
    assert isinstance(reader.read(page_of({}).encode(), replica="r", at_s=0.0), EngineReading)


def test_the_bounded_cache_forgets_the_oldest_first_and_refuses_the_huge() -> None:
    cache: BoundedCache[str, int] = BoundedCache(limit_bytes=100)
    for index in range(5):
        cache.put(f"k{index}", index, size_bytes=25)
    assert [cache.get(f"k{index}") for index in range(5)] == [None, 1, 2, 3, 4]
    cache.put("huge", 9, size_bytes=26)
    assert cache.get("huge") is None
    cache.put("k4", 7, size_bytes=10)
    assert (cache.get("k4"), cache.held_bytes, len(cache)) == (7, 85, 4)
