"""The emulator's pages of TGI, SGLang and Triton: courses worked by hand, read as the controller reads them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from adapters.engines.page_reader import PageReader
from autoscaler.domain.reading import EngineReading, Histogram, Unknown
from autoscaler.domain.service import Engine
from loadtests.emulator.batching import ContinuousBatching, EngineLimits, Sequence, StepCost
from loadtests.emulator.machine import MachineUse
from loadtests.emulator.metrics_page import MetricsPage, PageOf
from loadtests.emulator.plain_series import PlainSeries
from loadtests.emulator.process import EmulatorProcess
from loadtests.emulator.sglang_page import IDLE_FLUSH_S, LOG_INTERVAL_STEPS, SglangPage
from loadtests.emulator.tgi_page import TgiPage
from loadtests.emulator.triton_page import TritonPage

LIMITS = EngineLimits(max_num_seqs=2, max_num_batched_tokens=100, kv_tokens=2000, max_model_len=2000)


@dataclass
class Course:
    """An engine with steps of 1 s at explicit times, and the page that is told of it."""

    page: MetricsPage
    engine: ContinuousBatching
    now_s: float = 0.0

    @staticmethod
    def of(page: MetricsPage) -> Course:
        cost = StepCost(base_s=1.0, per_sequence_s=0, per_context_token_s=0, per_prefill_token_s=0)
        return Course(page, ContinuousBatching(cost=cost, limits=LIMITS))

    def request(self, prompt: int, output: int, *, chat: bool = False) -> Sequence:
        sequence = Sequence(prompt_tokens=prompt, output_tokens=output, arrived_s=self.now_s)
        self.page.receive(chat=chat)
        self.engine.submit(sequence)
        self.page.enqueue()
        return sequence

    def begin(self) -> None:
        assert self.engine.begin_step(self.now_s) == 1.0
        self.page.begin_step(waiting=self.engine.waiting)

    def end(self) -> None:
        self.now_s += 1.0
        result = self.engine.end_step(self.now_s)
        self.page.count_step(result, preemptions=0)
        self.show()
        for sequence in result.finished:
            self.page.count_finish(sequence, reason="length", max_tokens=sequence.output_tokens)

    def step(self) -> None:
        self.begin()
        self.end()

    def show(self) -> None:
        engine = self.engine
        self.page.show_load(running=engine.running, waiting=engine.waiting, kv_used_tokens=engine.kv_used_tokens)

    def drop(self, sequence: Sequence) -> None:
        self.engine.abort(sequence)
        self.page.drop()
        self.show()

    def reading(self) -> EngineReading:
        reading = PageReader().read(self.page.render(), replica="r", at_s=self.now_s)
        assert isinstance(reading, EngineReading), reading
        return reading

    def load(self) -> tuple[object, object, object, object]:
        """Waiting, running, completed, arrivals."""
        reading = self.reading()
        return reading.waiting, reading.running, reading.completed, reading.arrivals_stock


def test_tgi_counts_chats_twice_at_receipt_and_the_rest_at_the_end() -> None:
    course = Course.of(TgiPage(limits=LIMITS))
    assert course.load() == (0, 0, 0, 0)
    for prompt, output in ((30, 3), (40, 2), (5, 1)):
        course.request(prompt, output, chat=True)
    assert b"tgi_request_count 6\n" in course.page.render()
    assert course.load() == (3, 0, 0, 3)
    course.begin()
    assert course.load()[0] == 1  # two were taken; no gauge shows the batch yet
    course.end()
    assert course.load() == (1, 2, 0, 3)
    course.step()  # the second request ends; the third is taken in the next step
    assert course.load() == (1, 1, 1, 3)
    course.step()  # the first ends with its third token, the third with its only one
    reading = course.reading()
    assert course.load() == (0, 0, 3, 3)
    assert (reading.prompt_tokens, reading.generation_tokens, reading.refused) == (75, 6, 0)
    assert reading.steps == 4  # prefill, decode, and both in the last step
    assert isinstance(reading.e2e, Histogram)
    assert isinstance(reading.queue_time, Histogram)
    assert (reading.e2e.total, reading.queue_time.total) == (3 + 2 + 3, 2)
    course.page.refuse()
    assert course.reading().arrivals_stock == 4


def test_tgis_queue_of_an_engine_that_hangs_only_grows() -> None:
    course = Course.of(TgiPage(limits=LIMITS))
    gone = course.request(5, 1)
    course.request(5, 1)
    course.drop(gone)
    assert course.load() == (2, 0, 0, 2)


def test_triton_counts_at_the_end_and_its_pending_gauge_falls_at_the_beginning_of_an_execution() -> None:
    course = Course.of(TritonPage(model="m"))
    for _ in range(5):
        course.request(1, 1)
    reading = course.reading()
    assert (reading.pending, reading.completed) == (5, 0)
    assert isinstance(reading.arrivals_stock, Unknown)  # nothing was ever counted
    course.begin()
    assert course.reading().pending == 3
    course.end()
    assert course.load()[2:] == (2, 5)
    course.begin()
    assert course.load()[2:] == (2, 3)  # two are in execution, on no gauge
    course.end()
    course.step()
    reading = course.reading()
    assert course.load()[2:] == (5, 5)
    assert (reading.exec_count, reading.exec_items, reading.exec_sum_s, reading.batch_mean) == (3, 5, 5.0, 5 / 3)
    assert isinstance(reading.queue_time, Histogram)
    assert reading.queue_time.total == 0 * 2 + 1 * 2 + 2
    course.drop(course.request(1, 1))
    assert course.load()[2:] == (5, 6)


def test_triton_shows_the_machines_use_which_moves_without_a_request(tmp_path: Path) -> None:
    """By hand: 300 of 400 hundredths since the page before were idle or waited for a disk."""
    (tmp_path / "meminfo").write_text("MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\n")
    series = PlainSeries()
    machine = MachineUse(series, proc=tmp_path)
    machine.show()
    assert series.render() == b""  # no such files: as switched off
    shown = []
    for times in ("100 0 100 700 100 0 0 0 0 0", "150 0 150 900 200 0 0 0 0 0"):
        (tmp_path / "stat").write_text(f"cpu  {times}\ncpu0 {times}\n")
        machine.show()
        shown.append(series.render().decode())
    assert "nv_cpu_utilization 0.25\n" in shown[1]
    assert f"nv_cpu_memory_used_bytes {600 * 1024}\n" in shown[1]
    assert shown[0] != shown[1]


def test_sglangs_gauges_lag_behind_the_steps_and_stay_when_it_goes_idle() -> None:
    clock = [0.0]
    course = Course.of(SglangPage(model="m", limits=LIMITS, clock=lambda: clock[0]))
    course.request(30, 3)
    course.request(40, 2)
    assert course.load()[:2] == (0, 0)  # not a step yet
    course.step()
    reading = course.reading()
    assert course.load() == (0, 2, 0, 2)
    assert (reading.prompt_tokens, reading.generation_tokens) == (70, 2)
    course.step()
    course.step()
    reading = course.reading()
    assert isinstance(reading.itl, Histogram)
    assert (reading.itl.count, reading.completed, reading.generation_tokens) == (3, 2, 2)
    assert (reading.running, reading.arrivals_stock) == (2, 4)  # both ended, and are said to run
    clock[0] = IDLE_FLUSH_S
    assert course.load() == (0, 0, 2, 2)


def test_sglang_writes_its_gauges_at_every_fortieth_step() -> None:
    course = Course.of(SglangPage(model="m", limits=LIMITS))
    course.request(5, 100)
    course.request(5, 3)
    for _ in range(LOG_INTERVAL_STEPS - 1):
        course.step()
    assert course.load()[1] == 2
    course.step()
    assert course.load()[1] == 1
    course.drop(course.request(5, 1))
    assert course.reading().refused == 1


@pytest.mark.parametrize("page_of", PageOf)
def test_an_emulated_engine_of_each_kind_serves_requests_and_its_own_page(page_of: PageOf) -> None:
    with EmulatorProcess("--page-of", page_of, "--step-base-ms", "1") as engine:
        engine.await_status("/health", 200)
        body = {"model": "emulated", "messages": [{"role": "user", "content": "a b c"}], "max_tokens": 4}
        for _ in range(3):
            assert engine.ask("/v1/chat/completions", body).status == 200
        assert engine.ask("/v1/chat/completions", {"model": "another"}).status == 404
        reading = PageReader().read(engine.ask("/metrics").body, replica="r", at_s=0.0)
        assert isinstance(reading, EngineReading), reading
        assert reading.engine == Engine(page_of)
        assert (reading.completed, reading.waiting) == (3, 0)
        engine.set_faults({"page": {"kind": "nan"}})
        spoiled = PageReader().read(engine.ask("/metrics").body, replica="r", at_s=0.0)
        assert isinstance(spoiled, EngineReading), spoiled
        assert isinstance(spoiled.arrivals_stock, Unknown)
