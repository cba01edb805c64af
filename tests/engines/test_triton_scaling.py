"""Real Triton replicas behind the gateway, asked by Triton's client: as many as their batch time requires."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.domain.plan import ServiceDecision
from loadtests.records import LoadResult, Outcome, read_records
from loadtests.triton_server import READY_PATH, TimedModel, TritonHome
from tests.e2e.local_stack import LocalStack, until

pytestmark = pytest.mark.engines

# 8 / (0.4 + 8 x 0.05) = 10 requests/s in full batches.
MODEL = TimedModel(name="timed", alpha_s=0.4, beta_s=0.05, largest=8)
E2E_S = 2.5
QUIET_RPS, PEAK_RPS = 1.0, 22.5
QUIET_S, PEAK_S = 15.0, 75.0
# One replica alone first works through every size of batch, so that its curve is known: from 1 to 8 requests/s.
LEARNING = "1x20,3x20,6x20,8x30"
# A step's news takes a short window, a start and the backlog's end until the number has settled.
SETTLED_AFTER_S = 30.0


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[LocalStack]:
    running = LocalStack(tmp_path)
    try:
        yield running
    finally:
        running.end()


def required(rps: float) -> int:
    """The fewest replicas that bring ``rps`` requests/s their answers in time, from the model's own figures.

    With r requests/s each, an execution's batch is what came during the one before: b = r (alpha + beta b), hence
    b = r alpha / (1 - r beta), which must fit a batch. A request waits out at most one execution, then takes one.
    At 22.5: two replicas have 11.25 each, more than the 10 of full batches. Three have 7.5: b = 4.8, an execution
    takes 0.64 s, and nobody waits longer than 1.28 s.
    """
    for replicas in itertools.count(1):
        each_rps = rps / replicas
        if each_rps * MODEL.beta_s >= 1:
            continue
        batch = max(1.0, each_rps * MODEL.alpha_s / (1 - each_rps * MODEL.beta_s))
        if batch <= MODEL.largest and 2 * (MODEL.alpha_s + MODEL.beta_s * batch) <= E2E_S:
            return replicas
    raise AssertionError


def offer(stack: LocalStack, steps: str) -> LoadResult:
    """An open loop of locust's, each request an inference by Triton's client."""
    records = stack.folder / "records.jsonl"
    run = subprocess.run(
        (
            *(sys.executable, "-m", "loadtests.harness", "--url", f"http://127.0.0.1:{stack.gateway_port}"),
            *("--triton", "--served-model", MODEL.name, "--slo-e2e", str(E2E_S), "--records", str(records)),
            *("--formula", f"steps:{steps}", "--dispersion", "0.05", "--timeout-s", "60", "--drain-s", "60"),
        ),
        check=False,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    load = read_records(records)
    assert len(load.records) == load.head.requests
    assert [record for record in load.records if record.outcome is not Outcome.FINISHED] == []
    return load


def between(decisions: tuple[ServiceDecision, ...], since_s: float, until_s: float) -> set[int]:
    return {decision.desired for decision in decisions if since_s <= decision.at_s <= until_s}


def configure(
    stack: LocalStack, home: TritonHome, repository: Path, *, most: int, statistics: dict[str, str] | None
) -> None:
    stack.configure(
        {
            "name": "timed",
            "engine": "triton",
            "statistics": statistics,
            "slo": {"e2e": f"{E2E_S}s", "share": 0.95},
            "command": list(home.command(repository)),
            "env": home.env(),
            "readyPath": READY_PATH,
            "maxNumSeqs": MODEL.largest,
            "devices": {"count": 0},
            "maxReplicas": most,
            "startup": "3s",
            "gracePeriod": "20s",
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 15}},
        },
        intervalSeconds=1.0,
        forecast={"enabled": False},
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "statistics", [pytest.param(None, id="page alone"), pytest.param({"protocol": "grpc"}, id="statistics")]
)
def test_as_many_triton_servers_as_the_batch_time_requires(
    stack: LocalStack, triton_home: TritonHome, statistics: dict[str, str] | None
) -> None:
    repository = stack.folder / "models"
    MODEL.write(repository)
    configure(stack, triton_home, repository, most=1, statistics=statistics)
    stack.start()
    stack.until_ready(1, "timed")
    offer(stack, LEARNING)
    configure(stack, triton_home, repository, most=6, statistics=statistics)
    until(lambda: "configuration reloaded" in stack.log(), what="the higher limit is in force")

    load = offer(stack, f"{QUIET_RPS}x{QUIET_S},{PEAK_RPS}x{PEAK_S},{QUIET_RPS}x{QUIET_S}")
    until(lambda: stack.latest("timed").desired == 1, what="back to one", within_s=150)
    stack.until_ready(1, "timed", within_s=60)

    peak_s = load.head.started_s + QUIET_S
    needed = required(PEAK_RPS)
    decisions = stack.decisions(load.head.started_s, "timed")
    assert between(decisions, 0.0, peak_s) == {required(QUIET_RPS)} == {1}
    assert between(decisions, peak_s + SETTLED_AFTER_S, peak_s + PEAK_S) == {needed} == {3}
    assert max(decision.desired for decision in decisions) == needed
