"""The demo's parts: its configuration, its processes, its verdict on other fleets."""

from __future__ import annotations

import dataclasses
import io
import sys
import time
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from autoscaler.config import load
from autoscaler.domain.service import Slo
from loadtests.demo.api import ApiUnavailableError, ControllerApi
from loadtests.demo.baselines import baselines, computed_capacity_rps
from loadtests.demo.configuration import configuration, free_addresses
from loadtests.demo.engines import DemoEngine, emulated, triton, vllm
from loadtests.demo.planning import arrivals_under, load_options
from loadtests.demo.probe import ProbeFailedError, saturated_rps, throughput_rps
from loadtests.demo.run import main
from loadtests.demo.stack import Stack
from loadtests.demo.view import DemoView, Progress
from loadtests.emulator import settings as emulator_settings
from loadtests.records import LoadHead, LoadResult, Outcome, RequestRecord
from loadtests.timeline import FleetSample
from loadtests.triton_server import TimedModel, TritonHome

ENGINES = [
    pytest.param(emulated(), id="emulated"),
    pytest.param(vllm(python="/opt/vllm/bin/python", model_dir="/models/tiny"), id="vllm"),
    pytest.param(triton(home=TritonHome(Path("/opt/triton")), repository=Path("/models")), id="triton"),
]


@pytest.mark.parametrize("engine", ENGINES)
def test_configuration_is_one_that_the_controller_takes(engine: DemoEngine, tmp_path: Path) -> None:
    addresses = free_addresses()
    file = tmp_path / "config.yaml"
    file.write_text(configuration(engine, addresses, state_dir=tmp_path / "state"))
    settings = load(file)
    [service] = settings.services
    [template] = settings.templates
    whole = engine.itl_s is None
    assert service.slo == (Slo(e2e_s=engine.ttft_s) if whole else Slo(ttft_s=engine.ttft_s, itl_s=engine.itl_s))
    assert service.engine is engine.kind
    assert (None if service.statistics is None else service.statistics.protocol) is engine.statistics
    assert template.ready_path == engine.ready_path
    assert (service.bounds.min_replicas, service.bounds.max_replicas) == (engine.min_replicas, engine.max_replicas)
    assert template.command == tuple(engine.command)
    assert template.model == engine.served_model
    assert settings.gateway.port == addresses.gateway_port
    assert settings.warnings == ()


def test_emulated_replicas_are_the_engine_that_the_baselines_compute_with() -> None:
    engine = emulated()
    assert engine.model is not None
    assert engine.step_time is not None
    _, _, _, *flags = [word.format(port=1, model="m") for word in engine.command]
    started = emulator_settings.parse(flags)
    assert started.cost == engine.model.cost
    assert started.limits == engine.model.limits


@pytest.mark.parametrize("engine", ENGINES)
def test_load_fits_the_engine(engine: DemoEngine) -> None:
    """No request is longer than the engine takes, and the load lasts minutes."""
    arrivals = arrivals_under(load_options(engine, capacity_rps=4.0))
    longest = int((arrivals.prompt_tokens + arrivals.output_tokens).max())
    assert longest <= engine.max_model_len
    assert 120 <= arrivals.duration_s <= 1800


@pytest.mark.parametrize("capacity_rps", [0.5, 8.0])
def test_load_of_a_measured_engine_peaks_at_the_share_of_its_capacity(capacity_rps: float) -> None:
    engine = vllm(python="python", model_dir="model")
    arrivals = arrivals_under(load_options(engine, capacity_rps=capacity_rps))
    peak_rps = arrivals.peak_rps(engine.busiest_s)
    assert peak_rps == pytest.approx(engine.peak_to_capacity * capacity_rps, rel=0.2)


def test_the_timed_model_is_in_place_before_the_first_replica_and_its_batches_limit_the_rate(tmp_path: Path) -> None:
    engine = triton(home=TritonHome(Path("/opt/triton")), repository=tmp_path)
    engine.prepare()
    config = (tmp_path / engine.served_model / "config.pbtxt").read_text()
    assert f"max_batch_size: {engine.max_num_seqs}\n" in config
    assert engine.full_rps == pytest.approx(8 / (0.4 + 8 * 0.1))
    assert TimedModel(name="x", alpha_s=0.05, beta_s=0.025, largest=2).full_rps == pytest.approx(20.0)


def test_static_peak_serves_the_emulated_load_and_is_not_the_best_that_hindsight_knows() -> None:
    engine = emulated()
    assert engine.model is not None
    arrivals = arrivals_under(load_options(engine, capacity_rps=1.0))
    capacity_rps = computed_capacity_rps(engine, engine.model, arrivals)
    head = LoadHead(
        url="", label="", started_s=0.0, duration_s=arrivals.duration_s, requests=0, slo=Slo(ttft_s=engine.ttft_s)
    )
    nothing = LoadResult(head=head, records=())
    static, (reactive, hindsight) = baselines(engine, arrivals, nothing, (), capacity_rps=capacity_rps)
    assert static.share_served >= 0.99
    assert hindsight.share_served >= 0.99
    assert engine.min_replicas < hindsight.peak_replicas <= static.peak_replicas <= engine.max_replicas
    assert reactive.replica_seconds < static.replica_seconds
    assert capacity_rps * static.peak_replicas >= arrivals.peak_rps(engine.busiest_s)


def ended(due_s: float, e2e_s: float, outcome: Outcome = Outcome.FINISHED) -> RequestRecord:
    return RequestRecord(
        number=0,
        due_s=due_s,
        late_s=0.0,
        prompt_tokens=1,
        asked_tokens=1,
        output_tokens=1,
        outcome=outcome,
        status=200,
        ttft_s=0.1,
        itl_s=None,
        e2e_s=e2e_s,
    )


def test_throughput_of_a_burst_is_from_the_first_arrival_to_the_last_end() -> None:
    records = [ended(0.5, 1.5), ended(1.0, 1.0), ended(1.0, 3.5), ended(1.0, 60.0, Outcome.UNFINISHED)]
    assert throughput_rps(records) == 3 / 4.0
    with pytest.raises(ProbeFailedError, match="no request"):
        throughput_rps([ended(0.0, 1.0, Outcome.REFUSED)])


def test_probe_measures_a_replica_and_leaves_none_behind(tmp_path: Path) -> None:
    """Two sequences at once, four steps of at least 10 ms for each request: no more than 50 requests/s."""
    command = (
        *(sys.executable, "-m", "loadtests.engine_emulator", "--host", "{host}", "--port", "{port}"),
        *("--model", "{model}", "--step-base-ms", "10", "--max-num-seqs", "2"),
    )
    engine = dataclasses.replace(emulated(), command=command, max_num_seqs=2, probe_lengths=("5", "4"))
    assert 0 < saturated_rps(engine, directory=tmp_path) <= 50


def test_probe_says_why_an_engine_did_not_start(tmp_path: Path) -> None:
    engine = dataclasses.replace(emulated(), command=(sys.executable, "-c", "print('no weights')"))
    with pytest.raises(ProbeFailedError, match="no weights"):
        saturated_rps(engine, directory=tmp_path)


CHILD = (
    "import subprocess, sys, time; "
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True); {then}"
)


def children_marked(stack: Stack, count: int) -> list[psutil.Process]:
    deadline_s = time.monotonic() + 20
    while len(found := stack.marked()) < count:
        assert time.monotonic() < deadline_s
    return found


def test_stack_ends_what_its_processes_left_behind(tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        stack.start("parent", (sys.executable, "-c", CHILD.format(then="time.sleep(600)")))
        processes = children_marked(stack, 2)
    psutil.wait_procs(processes, timeout=20)
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


def test_stack_tells_of_a_process_left_behind(tmp_path: Path) -> None:
    with Stack(tmp_path) as stack:
        stack.start("parent", (sys.executable, "-c", CHILD.format(then="print('bye')")))
        while stack.exit_code("parent") is None:
            time.sleep(0.01)
        assert len(stack.left_over(patience_s=0.0)) == 1
        assert stack.exit_code("parent") == 0
        assert stack.log_tail("parent") == "bye"


def test_unusable_output_folder_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "state").write_text("a file where the state directory should be")
    monkeypatch.chdir(tmp_path)
    assert main(["--out", "out/state/deeper"]) == 1
    assert "out/state/deeper" in capsys.readouterr().out


def test_api_that_is_not_there_is_said() -> None:
    api = ControllerApi(url=free_addresses().api_url, service="chat")
    with pytest.raises(ApiUnavailableError, match=r"http://127\.0\.0\.1"):
        api.latest()


SAMPLE = FleetSample(
    at_s=5.0,
    ready=2,
    starting=1,
    draining=0,
    desired=3,
    demand_rps=4.0,
    forecast_rps=6.5,
    median_rps=5.0,
    capacity_rps=3.0,
    lead_s=5.0,
    reason="ForecastLoad",
    detail="6.5 requests/s foreseen",
)


@pytest.mark.parametrize("terminal", [False, True], ids=["piped", "terminal"])
def test_progress_is_shown(*, terminal: bool) -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=terminal)
    progress = Progress(
        elapsed_s=6.0,
        duration_s=180.0,
        planned=100,
        sent=20,
        records=[],
        sample=SAMPLE,
        slo=Slo(ttft_s=2.0),
    )
    with DemoView(console, dashboard="http://127.0.0.1:1/") as view:
        view.show(progress)
    text = out.getvalue()
    for part in ("6 of 180 s", "20 of 100 sent", "4.0 requests/s, forecast 6.5", "2 ready, 1 starting"):
        assert part in text
