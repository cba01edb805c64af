"""Real vLLM replicas behind the gateway: overload starts a second, quiet takes it back, and no request is lost."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from autoscaler.domain.demand import Demand
from autoscaler.domain.plan import Reason, Stage
from tests.e2e.local_stack import Answer, Load, LocalStack, ask, until
from tests.engines.install_vllm import Launch

pytestmark = pytest.mark.engines

START_WITHIN_S = 600.0
TOKENS = 48
SATURATED_S = 20.0
OVERLOAD = 1.2
TTFT_S, ITL_S = 8.0, 0.5


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[LocalStack]:
    running = LocalStack(tmp_path)
    try:
        yield running
    finally:
        running.end()


def backlog(stack: LocalStack) -> float:
    demand = stack.latest("tiny").demand
    assert isinstance(demand, Demand)
    return demand.backlog if isinstance(demand.backlog, float) else math.inf


def saturated_rps(port: int) -> float:
    """What one replica serves while twelve clients always want more (it runs four at once)."""
    ends_s = time.monotonic() + SATURATED_S

    def client(_: int) -> list[Answer]:
        answers = []
        while time.monotonic() < ends_s:
            answers.append(ask(port, tokens=TOKENS, model="tiny"))
        return answers

    with ThreadPoolExecutor(12) as pool:
        answers = [answer for some in pool.map(client, range(12)) for answer in some]
    assert {answer.status for answer in answers} == {200}
    return len(answers) / SATURATED_S


@pytest.mark.timeout(1500)
def test_overload_starts_a_second_vllm_and_quiet_takes_it_back(stack: LocalStack, vllm_command: Launch) -> None:
    stack.configure(
        {
            "name": "tiny",
            "engine": "vllm",
            "slo": {"ttft": f"{TTFT_S}s", "itl": f"{ITL_S}s", "share": 0.9},
            # Each replica has one core of its own, as it would have a GPU: two serve twice as much as one.
            "command": ["taskset", "-c", "{devices}", *vllm_command.command],
            "env": {**vllm_command.env, "OMP_NUM_THREADS": "1"},
            "devices": {"count": 1},
            "model": vllm_command.model,
            "maxReplicas": 2,
            "startup": "90s",
            "startDeadline": f"{START_WITHIN_S:.0f}s",
            "gracePeriod": "60s",
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 15}},
        },
        intervalSeconds=1.0,
        inventory={"devices": [{"id": "0"}, {"id": "1"}]},
    )
    stack.start()
    stack.until_ready(1, "tiny", within_s=START_WITHIN_S)
    one_rps = saturated_rps(stack.gateway_port)

    with Load(stack.gateway_port, rps=OVERLOAD * one_rps, tokens=TOKENS, model="tiny") as load:
        stack.until_ready(2, "tiny", within_s=START_WITHIN_S)
        until(lambda: backlog(stack) == 0, what="the queue is worked off", within_s=400)
        done = len(load.answers)
        until(lambda: len(load.answers) > done + 100, what="a hundred more answers", within_s=120)
    settled = load.answers[done : done + 100]
    late = [answer for answer in settled if answer.took_s > TTFT_S + TOKENS * ITL_S]
    assert len(late) <= 0.1 * len(settled)
    assert load.failed() == []

    until(lambda: stack.latest("tiny").desired == 1, what="back to one", within_s=300)
    stack.until_ready(1, "tiny", within_s=120)
    assert ask(stack.gateway_port, tokens=TOKENS, model="tiny").status == 200
    sized = [stage for stage in stack.latest("tiny").stages if stage.stage is Stage.SIZE]
    assert sized[0].reason is not Reason.CAPACITY_UNKNOWN
