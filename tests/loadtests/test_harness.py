"""The harness against a real engine: an open loop, its records, and both command lines."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import loadtests
from autoscaler.domain.service import Slo
from loadtests.arrivals import Arrivals
from loadtests.client import Target
from loadtests.emulator.process import EmulatorProcess
from loadtests.openloop import offer
from loadtests.records import LoadHead, Outcome, RecordsFile, RecordsFollower, RequestRecord, read_records

LOCUSTFILE = str(Path(loadtests.__file__).with_name("locustfile.py"))
SHORT = ("--formula", "steps:20x2", "--prompt-tokens", "20", "--output-tokens", "5")


def plan(count: int, duration_s: float) -> Arrivals:
    return Arrivals(
        at_s=np.linspace(0, duration_s, count, endpoint=False),
        prompt_tokens=np.full(count, 8),
        output_tokens=np.full(count, 3),
        duration_s=duration_s,
        label="even",
    )


def test_requests_leave_at_their_times_though_nothing_is_answered(emulator: EmulatorProcess) -> None:
    """A closed loop would wait for the first answers; here all are sent, and counted as missed in the end."""
    emulator.set_faults({"engine": {"kind": "hang"}})
    records: list[RequestRecord] = []
    target = Target(url=emulator.url, model="emulated")
    offer(plan(40, 1.0), target=target, drain_s=0.5, on_record=records.append)
    assert sorted(record.number for record in records) == list(range(40))
    assert {record.outcome for record in records} == {Outcome.UNFINISHED}
    assert {record.error for record in records} == {"still under way when the run ended"}


def test_every_request_is_recorded_once(emulator: EmulatorProcess) -> None:
    records: list[RequestRecord] = []
    target = Target(url=emulator.url, model="emulated")
    offer(plan(30, 0.5), target=target, drain_s=30.0, on_record=records.append)
    assert sorted(record.number for record in records) == list(range(30))
    assert {(record.outcome, record.output_tokens) for record in records} == {(Outcome.FINISHED, 3)}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, timeout=50, check=False)


def test_harness_command(emulator: EmulatorProcess, tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    begin_s = time.time()
    done = run("loadtests.harness", "--url", emulator.url, *SHORT, "--records", str(file), "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    result = read_records(file)
    assert figures["requests"] == figures["finished"] == len(result.records) == result.head.requests > 0
    assert figures["output_tokens"] == 5 * len(result.records)
    assert begin_s <= result.head.started_s <= time.time()
    assert result.head.slo == Slo(ttft_s=2.0, itl_s=0.1)
    assert sorted(record.number for record in result.records) == list(range(len(result.records)))


def test_harness_command_fails_below_the_share_asked_for(emulator: EmulatorProcess) -> None:
    done = run("loadtests.harness", "--url", emulator.url, *SHORT, "--slo-ttft", "0.000001", "--require", "0.9")
    assert done.returncode == 1, done.stderr
    assert "0.00%" in done.stdout


def test_harness_command_names_a_bad_option(emulator: EmulatorProcess) -> None:
    done = run("loadtests.harness", "--url", emulator.url, *SHORT, "--records", "/nowhere/x")
    assert done.returncode == 2
    assert "/nowhere/x" in done.stderr


def test_locust_command(emulator: EmulatorProcess, tmp_path: Path) -> None:
    """locust's own statistics have a row for the requests, for TTFT and for ITL."""
    file = tmp_path / "records.jsonl"
    done = run(
        *("locust", "-f", LOCUSTFILE, "--headless", "--host", emulator.url, *SHORT),
        *("--records", str(file), "--json"),
    )
    assert done.returncode == 0, done.stderr
    count = len(read_records(file).records)
    rows = json.loads(done.stdout)
    found = {row["method"]: (row["name"], row["num_requests"], row["num_failures"]) for row in rows}
    assert count > 0
    assert found == dict.fromkeys(("POST", "TTFT", "ITL"), ("/v1/completions", count, 0))


def record(number: int) -> RequestRecord:
    return RequestRecord(
        number=number,
        due_s=1.5,
        late_s=0.0,
        prompt_tokens=3,
        asked_tokens=2,
        output_tokens=2,
        outcome=Outcome.FINISHED,
        status=200,
        ttft_s=0.25,
        itl_s=None,
        e2e_s=0.5,
    )


def test_records_can_be_followed_while_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    head = LoadHead(url="u", label="l", started_s=1.0, duration_s=2.0, requests=2, slo=Slo(ttft_s=1.0))
    follower = RecordsFollower(path)
    follower.catch_up()
    assert follower.records == []
    file = RecordsFile(path)
    file.begin(head)
    file.write(record(1))
    follower.catch_up()
    assert follower.head == head
    assert follower.records == [record(1)]
    with path.open("ab") as half:
        half.write(b'{"number":')
    follower.catch_up()
    assert follower.records == [record(1)]
    assert read_records(path).records == (record(1),)
    file.close()
