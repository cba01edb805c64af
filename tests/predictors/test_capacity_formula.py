"""The rate at the SLO from a step time: hand-worked closed forms, and what must hold for any engine and traffic."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autoscaler.domain.capacity import CapacityLimit, CapacitySource, ReplicaCapacity, RequestShape, StepTime
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.service import Slo, Variant
from predictors.capacity import StepTimeCapacity
from predictors.lengths import Lengths
from predictors.profiles import find_profile, profiles
from predictors.slo_rate import Workload

MODEL = StepTimeCapacity()
L40S = find_profile(gpu="l40s", model="Llama-3.1-8B", tp=1)
# Interpolation between the rates that are tried is off by this much in rare cases, close to saturation.
TOLERANCE = 0.06


def shape(prompt: float, output: float, prompt_cv: float = 1.0, output_cv: float = 1.0) -> RequestShape:
    return RequestShape(
        prompt=prompt,
        output=output,
        prompt_sq=prompt**2 * (1 + prompt_cv**2),
        output_sq=output**2 * (1 + output_cv**2),
        prompt_x_output=prompt * output,
    )


CONVERSATION = shape(1155, 211, 0.96, 0.77)


@dataclass(frozen=True, kw_only=True)
class Question:
    """An engine, its traffic and what is asked of it."""

    step: StepTime = L40S.step_time
    requests: RequestShape = CONVERSATION
    slo: Slo
    fleet: int = 10
    max_num_seqs: int | None = None
    kv_tokens: float | None = None

    def ask(self) -> ReplicaCapacity | Unknown:
        variant = Variant(name="gpu", step_time=self.step, max_num_seqs=self.max_num_seqs, kv_tokens=self.kv_tokens)
        return MODEL.capacity(MODEL.start(), variant=variant, shape=self.requests, slo=self.slo, fleet=self.fleet)

    def workload(self) -> Workload:
        lengths = Lengths.of(self.requests)
        assert isinstance(lengths, Lengths)
        return Workload(step=self.step, lengths=lengths, fleet=self.fleet, batch_tokens=2048)


def rate(answer: ReplicaCapacity | Unknown) -> float:
    assert isinstance(answer, ReplicaCapacity), answer
    return answer.rps


@pytest.mark.parametrize(
    ("profile", "prompt", "output", "rps"),
    [
        # w = 0.0237*1155 + 211*(0.0105 + 4.14e-5*1260.5) = 40.6 ms; (1 - 6.387/50)/w
        pytest.param(("h100", "Llama-3.1-8B", 1), 1155, 211, 21.6, id="8B H100, conversation"),
        pytest.param(("h200", "Llama-3.1-8B", 1), 1155, 211, 24.8, id="8B H200, conversation"),
        pytest.param(("a100", "Llama-3.1-8B", 1), 1155, 211, 7.3, id="8B A100, conversation"),
        # w = 0.0768*1155 + 211*(0.0353 + 1.872e-4*1260.5) = 145.9 ms; (1 - 22.158/50)/w
        pytest.param(("l40s", "Llama-3.1-8B", 1), 1155, 211, 3.8, id="8B L40S, conversation"),
        pytest.param(("h100", "Llama-3.1-8B", 1), 2048, 28, 17.2, id="8B H100, code"),
        pytest.param(("h200", "Llama-3.1-70B", 4), 1155, 211, 8.3, id="70B on 4 H200, conversation"),
        pytest.param(("l40s", "Llama-3.1-8B", 1), 1268, 1527, 0.76, id="8B L40S, reasoning"),
    ],
)
def test_mean_rates_are_those_worked_by_hand(
    profile: tuple[str, str, int], prompt: float, output: float, rps: float
) -> None:
    gpu, model, tp = profile
    step = find_profile(gpu=gpu, model=model, tp=tp).step_time
    question = Question(step=step, requests=shape(prompt, output, 0.0, 0.0), slo=Slo(itl_s=0.05))
    assert question.workload().mean_rps(itl_s=0.05) == pytest.approx(rps, rel=0.015)


def test_batch_and_rate_are_two_sides_of_one_state() -> None:
    """B = lambda*o*T: where the mean step is 50 ms, the batch is rate * 211 * 50 ms."""
    workload = Question(slo=Slo(itl_s=0.05)).workload()
    rps = workload.mean_rps(itl_s=0.05)
    assert workload.rps_at_batch(rps * 211 * 0.05) == pytest.approx(rps)


def test_moments_of_the_lengths_are_kept() -> None:
    lengths = Lengths.of(RequestShape(prompt=1155, output=211, prompt_sq=2.5e6, output_sq=7.1e4, prompt_x_output=2.2e5))
    assert isinstance(lengths, Lengths)
    assert lengths.moment(1, 0) == pytest.approx(1155)
    assert lengths.moment(0, 1) == pytest.approx(211)
    assert lengths.moment(2, 0) == pytest.approx(2.5e6)
    assert lengths.moment(0, 2) == pytest.approx(7.1e4)
    assert lengths.moment(1, 1) == pytest.approx(2.2e5)


BOTH = Slo(itl_s=0.05, ttft_s=2.0)


@pytest.mark.parametrize(
    ("question", "limit"),
    [
        pytest.param(Question(slo=Slo(itl_s=0.05)), CapacityLimit.ITL, id="ITL"),
        pytest.param(Question(slo=Slo(itl_s=1.0, ttft_s=0.7)), CapacityLimit.TTFT, id="TTFT"),
        pytest.param(Question(slo=BOTH, max_num_seqs=8), CapacityLimit.MAX_NUM_SEQS, id="sequences"),
        pytest.param(Question(slo=BOTH, kv_tokens=12_000.0), CapacityLimit.KV_MEMORY, id="KV memory"),
        pytest.param(
            Question(slo=BOTH, kv_tokens=12_000.0, max_num_seqs=4), CapacityLimit.MAX_NUM_SEQS, id="the tighter of both"
        ),
    ],
)
def test_the_limit_that_binds_is_named(question: Question, limit: CapacityLimit) -> None:
    answer = question.ask()
    assert isinstance(answer, ReplicaCapacity)
    assert answer.limit is limit
    assert answer.source is CapacitySource.PROFILE


@pytest.mark.parametrize(
    ("question", "says"),
    [
        pytest.param(Question(slo=Slo(itl_s=0.02)), "an empty step takes 0.02216 s", id="ITL below an empty step"),
        pytest.param(Question(slo=Slo(ttft_s=0.05)), "miss the SLO on an idle replica", id="TTFT below most prefills"),
        pytest.param(Question(slo=Slo(e2e_s=1.0)), "miss the SLO on an idle replica", id="time below most answers"),
        pytest.param(
            Question(slo=BOTH, kv_tokens=1000.0), "needs 1366 tokens of KV cache", id="KV memory below a mean request"
        ),
    ],
)
def test_an_slo_out_of_reach_is_unknown_with_its_reason(question: Question, says: str) -> None:
    answer = question.ask()
    assert isinstance(answer, Unknown)
    assert answer.reason is UnknownReason.UNSATISFIABLE
    assert says in answer.detail


def test_a_few_prompts_beyond_help_do_not_ask_for_ever_more_replicas() -> None:
    """Some prompts take longer than the TTFT allows on an idle replica: said, and sized for the others."""
    documents = shape(4000, 150, 0.6)
    tight = Question(requests=documents, slo=Slo(ttft_s=0.9)).ask()
    wide = Question(requests=documents, slo=Slo(ttft_s=2.0)).ask()
    assert isinstance(tight, ReplicaCapacity)
    assert "of the requests miss the SLO even on an idle replica" in tight.detail
    assert 0.1 * rate(wide) < tight.rps < rate(wide)


def test_whole_time_limits_what_token_times_allow() -> None:
    loose = rate(Question(slo=Slo(itl_s=0.05)).ask())
    assert rate(Question(slo=Slo(itl_s=0.05, e2e_s=25.0)).ask()) < loose
    assert rate(Question(slo=Slo(itl_s=0.05, e2e_s=500.0)).ask()) == pytest.approx(loose, rel=0.02)


def test_a_queue_threshold_alone_bounds_a_batch_server() -> None:
    """4 slots of 211 steps: a short queue asks for more idle slots than a long one."""
    short, long = (rate(Question(slo=Slo(queue_s=queue_s), max_num_seqs=4, fleet=1).ask()) for queue_s in (0.5, 30.0))
    assert 0.2 * long < short < 0.8 * long


steps = st.sampled_from(profiles()).map(lambda each: each.step_time)
shapes = st.builds(shape, st.floats(8, 6000), st.floats(4, 2000), st.floats(0, 2), st.floats(0, 2))
factors = st.floats(1.05, 3.0)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """With an SLO that an idle replica meets with ease."""
    step, requests = draw(steps), draw(shapes)
    longest_s = 40 * step.a_s * requests.prompt * (1 + requests.prompt_sq / requests.prompt**2)
    slo = Slo(
        itl_s=draw(st.none() | st.floats(1.5, 10).map(lambda times: times * step.c_s)),
        ttft_s=draw(st.floats(1.0, 10).map(lambda times: times * (longest_s + 10 * step.c_s))),
        share=draw(st.floats(0.9, 0.999)),
    )
    return Question(
        step=step,
        requests=requests,
        slo=slo,
        fleet=draw(st.integers(1, 60)),
        max_num_seqs=draw(st.none() | st.integers(2, 512)),
        kv_tokens=draw(st.none() | st.floats(5e4, 2e6)),
    )


def known(*asked: Question) -> list[float]:
    """The rates; where one is unknown (an SLO out of reach), nothing is to be compared."""
    answers = [question.ask() for question in asked]
    assume(not any(isinstance(answer, Unknown) for answer in answers))
    return [rate(answer) for answer in answers]


@settings(max_examples=150, deadline=None)
@given(question=questions(), factor=factors)
def test_a_looser_slo_allows_no_less(question: Question, factor: float) -> None:
    itl_s, ttft_s = question.slo.itl_s, question.slo.ttft_s
    assert ttft_s is not None
    loose = replace(question.slo, itl_s=None if itl_s is None else itl_s * factor, ttft_s=ttft_s * factor)
    tight_rps, loose_rps = known(question, replace(question, slo=loose))
    assert loose_rps >= tight_rps * (1 - TOLERANCE)


@settings(max_examples=150, deadline=None)
@given(question=questions(), lower=st.floats(0.5, 1.0))
def test_a_lower_share_allows_no_less(question: Question, lower: float) -> None:
    relaxed = replace(question.slo, share=max(0.5, question.slo.share * lower))
    strict_rps, relaxed_rps = known(question, replace(question, slo=relaxed))
    assert relaxed_rps >= strict_rps * (1 - TOLERANCE)


@settings(max_examples=150, deadline=None)
@given(question=questions(), factor=factors)
def test_longer_prompts_allow_no_more(question: Question, factor: float) -> None:
    requests = question.requests
    longer = replace(
        requests,
        prompt=requests.prompt * factor,
        prompt_sq=requests.prompt_sq * factor**2,
        prompt_x_output=requests.prompt_x_output * factor,
    )
    short_rps, long_rps = known(question, replace(question, requests=longer))
    assert long_rps <= short_rps * (1 + TOLERANCE)


@settings(max_examples=150, deadline=None)
@given(question=questions(), more=st.integers(1, 40))
def test_a_larger_fleet_serves_no_less_each(question: Question, more: int) -> None:
    small_rps, large_rps = known(question, replace(question, fleet=question.fleet + more))
    assert large_rps >= small_rps * (1 - TOLERANCE)


@settings(max_examples=150, deadline=None)
@given(question=questions())
def test_no_more_than_the_mean_rate_is_promised(question: Question) -> None:
    (rps,) = known(question)
    assert rps <= question.workload().mean_rps(itl_s=question.slo.itl_s or math.inf) * 1.0001


any_moment = st.floats(allow_nan=True, allow_infinity=True) | st.floats(0, 1e5)
any_threshold = st.floats(1e-3, 1e6)


@settings(max_examples=300, deadline=None)
@given(
    question=st.builds(
        Question,
        requests=st.builds(
            RequestShape,
            prompt=any_moment,
            output=any_moment,
            prompt_sq=any_moment,
            output_sq=any_moment,
            prompt_x_output=any_moment,
        ),
        step=st.builds(
            StepTime,
            c_s=st.floats(1e-6, 100, exclude_min=True),
            d_s=st.floats(0, 10),
            e_s=st.floats(0, 1),
            a_s=st.floats(0, 10),
        ),
        slo=st.builds(
            Slo,
            ttft_s=st.none() | any_threshold,
            itl_s=st.none() | any_threshold,
            queue_s=st.none() | any_threshold,
            e2e_s=any_threshold,
            share=st.floats(0.5, 0.999999),
        ),
        fleet=st.integers(-5, 10_000),
        max_num_seqs=st.none() | st.integers(1, 512),
        kv_tokens=st.none() | st.floats(1, 2e6),
    )
)
def test_any_input_gives_a_finite_rate_or_a_reason(question: Question) -> None:
    answer = question.ask()
    if isinstance(answer, ReplicaCapacity):
        assert math.isfinite(answer.rps)
        assert answer.rps > 0
    else:
        assert answer.detail
