"""The capacity model beside an engine that goes step by step and shares no code with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from autoscaler.domain.capacity import CapacityLimit, ReplicaCapacity, RequestShape, StepTime
from autoscaler.domain.service import Slo, Variant
from benchmarks.step_engine import Engine, Traffic, simulate
from predictors.capacity import StepTimeCapacity
from predictors.profiles import find_profile

Lengths = NDArray[np.int64]

CONVERSATION = Traffic(prompt=1155, output=211, prompt_cv=0.96, output_cv=0.77)
CODE = Traffic(prompt=2048, output=28, prompt_cv=0.96)
CHAT = Traffic(prompt=256, output=256)
DOCUMENTS = Traffic(prompt=4000, output=150, prompt_cv=0.6)
FIXED = Traffic(prompt=1000, output=200, prompt_cv=0.0, output_cv=0.0)

H100 = find_profile(gpu="h100", model="Llama-3.1-8B", tp=1).step_time
A100 = find_profile(gpu="a100", model="Llama-3.1-8B", tp=1).step_time
L40S = find_profile(gpu="l40s", model="Llama-3.1-8B", tp=1).step_time
H100_70B = find_profile(gpu="h100", model="Llama-3.1-70B", tp=4).step_time
TINY_ON_CPU = StepTime(c_s=0.012, d_s=1.5e-3, e_s=2e-6, a_s=5e-5)


@dataclass(frozen=True, kw_only=True)
class Case:
    """An engine, its traffic and what is asked of it; ``binds``: the limit that the model should name."""

    step: StepTime
    traffic: Traffic
    slo: Slo
    fleet: int = 1
    max_seqs: int | None = None
    kv_tokens: float | None = None
    binds: CapacityLimit = CapacityLimit.ITL
    requests: int = 16_000

    def answer(self) -> ReplicaCapacity:
        """What the model says."""
        model = StepTimeCapacity(batch_tokens=8192)
        variant = Variant(name="gpu", step_time=self.step, max_num_seqs=self.max_seqs, kv_tokens=self.kv_tokens)
        shape = moments(*self.traffic.draw(200_000, 1.0, seed=7)[1:])
        capacity = model.capacity(model.start(), variant=variant, shape=shape, slo=self.slo, fleet=self.fleet)
        assert isinstance(capacity, ReplicaCapacity), capacity
        return capacity

    def share_at(self, rps: float) -> float:
        """What the engine does."""
        step = self.step
        engine = Engine(
            c=step.c_s,
            d=step.d_s,
            e=step.e_s,
            a=step.a_s,
            max_seqs=self.max_seqs or 10_000,
            kv_tokens=self.kv_tokens or 1e12,
        )
        arrivals_s, prompts, outputs = self.traffic.draw(self.requests, rps * self.fleet, seed=11)
        served = simulate(engine, arrivals_s=arrivals_s, prompts=prompts, outputs=outputs, replicas=self.fleet)
        return served.share(ttft_s=self.slo.ttft_s or 1e9, itl_s=self.slo.itl_s or 1e9)


def moments(prompts: Lengths, outputs: Lengths) -> RequestShape:
    p, o = prompts.astype(float), outputs.astype(float)
    return RequestShape(
        prompt=float(p.mean()),
        output=float(o.mean()),
        prompt_sq=float((p * p).mean()),
        output_sq=float((o * o).mean()),
        prompt_x_output=float((p * o).mean()),
    )


ITL_50 = Slo(itl_s=0.05, ttft_s=2.0)
CASES = [
    pytest.param(Case(step=L40S, traffic=CONVERSATION, slo=ITL_50), id="conversation, L40S alone"),
    pytest.param(Case(step=L40S, traffic=CONVERSATION, slo=ITL_50, fleet=10), id="conversation, 10 L40S"),
    pytest.param(Case(step=H100, traffic=CONVERSATION, slo=Slo(itl_s=0.02)), id="conversation, H100 alone, 20 ms"),
    pytest.param(Case(step=H100_70B, traffic=CONVERSATION, slo=ITL_50, fleet=10), id="conversation, 10 x 70B"),
    pytest.param(Case(step=H100, traffic=CODE, slo=ITL_50, fleet=10), id="code, 10 H100"),
    pytest.param(Case(step=A100, traffic=CHAT, slo=ITL_50, fleet=3), id="chat, 3 A100"),
    pytest.param(Case(step=A100, traffic=FIXED, slo=ITL_50), id="fixed lengths, A100 alone"),
    pytest.param(Case(step=TINY_ON_CPU, traffic=CHAT, slo=ITL_50, fleet=3), id="chat, 3 tiny engines on CPU"),
    pytest.param(
        Case(step=L40S, traffic=DOCUMENTS, slo=Slo(ttft_s=2.0), fleet=3, binds=CapacityLimit.TTFT),
        id="documents, TTFT alone binds",
    ),
    pytest.param(
        Case(step=H100, traffic=CODE, slo=Slo(ttft_s=0.5), binds=CapacityLimit.TTFT), id="code, a tight TTFT binds"
    ),
    pytest.param(
        Case(step=L40S, traffic=CONVERSATION, slo=ITL_50, max_seqs=16, fleet=3, binds=CapacityLimit.MAX_NUM_SEQS),
        id="conversation, 16 sequences bind",
    ),
    pytest.param(
        Case(step=TINY_ON_CPU, traffic=CHAT, slo=Slo(ttft_s=2.0), max_seqs=4, binds=CapacityLimit.MAX_NUM_SEQS),
        id="chat, 4 sequences bind",
    ),
    pytest.param(
        Case(step=H100, traffic=CONVERSATION, slo=ITL_50, kv_tokens=80_000, binds=CapacityLimit.KV_MEMORY),
        id="conversation, KV memory binds",
    ),
]


@pytest.mark.parametrize("case", CASES)
def test_the_answer_keeps_the_slo_and_wastes_little(case: Case) -> None:
    answer = case.answer()
    assert answer.limit is case.binds
    # 99 % asked; the rest is the sampling of the simulated requests and the model's error.
    assert case.share_at(answer.rps) >= 0.975
    # At a rate 60 % of which the answer is, the SLO is missed: the best rate lies below.
    assert case.share_at(answer.rps / 0.6) < 0.99


def test_the_share_asked_for_is_about_the_share_attained() -> None:
    for share in (0.8, 0.9, 0.95):
        case = Case(step=L40S, traffic=CONVERSATION, slo=Slo(itl_s=0.05, share=share), fleet=3)
        assert case.share_at(case.answer().rps) == pytest.approx(share, abs=0.06)


def test_the_mean_itl_is_the_closed_form() -> None:
    """T = c / (1 - lambda*w), for a fleet in which the router evens the load out."""
    case = Case(step=L40S, traffic=CONVERSATION, slo=ITL_50, fleet=10)
    shape = moments(*case.traffic.draw(200_000, 1.0, seed=7)[1:])
    step = case.step
    work_s = step.a_s * shape.prompt + step.d_s * shape.output
    work_s += step.e_s * (shape.prompt_x_output + shape.output_sq / 2)
    arrivals_s, prompts, outputs = case.traffic.draw(case.requests, 10 * 0.6 / work_s, seed=3)
    engine = Engine(c=step.c_s, d=step.d_s, e=step.e_s, a=step.a_s)
    served = simulate(engine, arrivals_s=arrivals_s, prompts=prompts, outputs=outputs, replicas=10)
    weighted = np.average(served.itl_s[2000:], weights=outputs[2000:])
    assert weighted == pytest.approx(step.c_s / (1 - 0.6), rel=0.1)
