"""Two looks at a page: rates and means in between, and none across a new start."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from adapters.engines.fetched import FetchedPage
from adapters.engines.reading_report import PageReport, report_page, to_json
from adapters.engines.report_rates import rates_between
from autoscaler.cli import app
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.page_watching import watched
from loadtests.emulator.process import EmulatorProcess
from tests.adapters_engines.known import SCRAPES

THEN = (SCRAPES / "triton_cpu_loaded.prom").read_text()
# 4 s later: 100 more requests in 13 executions, 10 of them having waited 50 ms each, 22 pending.
NOW = (
    THEN.replace('success{model="dbl",version="1"} 211', 'success{model="dbl",version="1"} 311')
    .replace('nv_inference_count{model="dbl",version="1"} 211', 'nv_inference_count{model="dbl",version="1"} 311')
    .replace("} 28", "} 41")
    .replace("} 43669696", "} 48669696")
    .replace("} 32", "} 22")
)


class GivenClock:
    """Time that passes as it is waited for."""

    def __init__(self) -> None:
        self._now_s = 1000.0

    def now_s(self) -> float:
        return self._now_s

    def wait_until(self, at_s: float) -> None:
        self._now_s = max(self._now_s, at_s)


def report(page: str) -> PageReport:
    return report_page(FetchedPage(page.encode()))


def known(before: str, after: str, span_s: float) -> dict[str, float]:
    rates = rates_between(report(before), report(after), span_s=span_s)
    return {rate.name: rate.value for rate in rates if not isinstance(rate.value, Unknown)}


def test_a_batch_server_over_four_seconds() -> None:
    assert known(THEN, NOW, 4.0) == {
        "arrivals_per_s": 22.5,  # 100 answered, 10 fewer pending
        "completed_per_s": 25.0,
        "refused_per_s": 0.0,
        "exec_per_s": 3.25,
        "queue_time_mean_s": pytest.approx(0.05),
        "e2e_mean_s": 0.0,
        "batch_mean": 100 / 13,
    }


def test_after_a_new_start_there_is_no_rate_but_of_the_stock() -> None:
    rates = rates_between(report(NOW), report(THEN), span_s=1.0)
    (completed,) = [rate.value for rate in rates if rate.name == "completed_per_s"]
    assert completed == Unknown(UnknownReason.RESET, "was 311, is 211")
    assert known(NOW, THEN, 1.0)["arrivals_per_s"] == -90


def test_nothing_meanwhile_has_no_mean() -> None:
    assert "batch_mean" not in known(THEN, THEN, 1.0)
    assert known(THEN, THEN, 1.0)["arrivals_per_s"] == 0


def test_each_look_is_told_with_the_rates_since_the_last() -> None:
    pages = iter([THEN, NOW, NOW])
    looks = watched(lambda: report(next(pages)), every_s=4.0, clock=GivenClock())
    first, second, third = (rates for _, rates in itertools.islice(looks, 3))
    assert first == ()
    assert {rate.name: rate.value for rate in second}["completed_per_s"] == 25.0  # 100 in 4 s
    assert {rate.name: rate.value for rate in third}["completed_per_s"] == 0.0


def test_rates_are_added_to_the_json_on_one_line() -> None:
    line = to_json(report(NOW), rates=rates_between(report(THEN), report(NOW), span_s=4.0))
    assert "\n" not in line
    plain = json.loads(line)
    assert list(plain) == ["engine", "signals", "devices", "warnings", "rates"]
    assert plain["rates"]["arrivals_per_s"] == {"value": 22.5, "unit": "requests/s"}
    assert list(plain["rates"]["ttft_mean_s"]) == ["unknown"]


def test_the_command_looks_until_it_is_interrupted() -> None:
    with EmulatorProcess("--page-of", "triton", "--step-base-ms", "1") as engine:
        engine.await_status("/health", 200)
        # As from a terminal: what a shell runs in the background has interrupts ignored, and its children as well.
        heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
        main = f"{heard}; from autoscaler.cli import main; main()"
        command = [sys.executable, "-c", main, "read", f"{engine.url}/metrics", "--watch", "0.5", "--output", "json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
            assert watching.stdout is not None
            first = json.loads(watching.stdout.readline())
            engine.ask("/v1/completions", {"model": "emulated", "prompt": "a", "max_tokens": 1})
            later = [json.loads(watching.stdout.readline()) for _ in range(2)]
            watching.send_signal(signal.SIGINT)
            assert watching.wait(timeout=30) == 0
    assert first["rates"] == {}
    completed = [look["signals"]["completed"]["value"] for look in (first, *later)]
    assert (completed[0], completed[-1]) == (0, 1)
    assert any(look["rates"]["completed_per_s"]["value"] > 0 for look in later)


def test_standard_input_is_not_watched() -> None:
    refused = CliRunner().invoke(app, ["read", "-", "--watch", "1"])
    assert refused.exit_code == 2
    assert "--watch needs a page that can be read again" in refused.stderr
