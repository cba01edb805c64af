"""What the capacity model makes of measured windows: a fit, a scaled profile, saturation, durations, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.domain.capacity import (
    CapacityLimit,
    CapacitySource,
    LoadSample,
    ReplicaCapacity,
    RequestShape,
    StepTime,
)
from autoscaler.domain.learned import Learned
from autoscaler.domain.reading import Measured, Unknown, UnknownReason
from autoscaler.domain.service import Slo, Variant
from predictors.capacity import StepTimeCapacity
from predictors.profiles import find_profile
from predictors.step_time import scaled

MODEL = StepTimeCapacity()
L40S = find_profile(gpu="l40s", model="Llama-3.1-8B", tp=1).step_time
SHAPE = RequestShape.of_means(1155, 211)
SLO = Slo(itl_s=0.05, ttft_s=3.0)
DECLARED = Variant(name="gpu", step_time=L40S)
BARE = Variant(name="gpu")
NOTHING = Unknown(UnknownReason.NO_OBSERVATIONS, "not measured")

EMPTY = LoadSample(
    at_s=0.0,
    itl_s=NOTHING,
    running=NOTHING,
    context_tokens=NOTHING,
    prefill_tps=NOTHING,
    arrival_rps=NOTHING,
    completed_rps=NOTHING,
    e2e_s=NOTHING,
    waiting=NOTHING,
    saturated=False,
)


def steady(step: StepTime, rps: float, *, at_s: float, factor: float = 1.0) -> LoadSample:
    """One window of an engine in steady state; ``factor``: what its ITL is off by."""
    context = SHAPE.prompt + SHAPE.output / 2
    work_s = step.a_s * SHAPE.prompt + SHAPE.output * (step.d_s + step.e_s * context)
    itl_s = step.c_s / (1 - rps * work_s) * factor
    running = rps * SHAPE.output * itl_s
    return LoadSample(
        at_s=at_s,
        itl_s=itl_s,
        running=running,
        context_tokens=running * context,
        prefill_tps=rps * SHAPE.prompt,
        arrival_rps=rps,
        completed_rps=rps,
        e2e_s=SHAPE.output * itl_s + 0.2,
        waiting=0.0,
        saturated=False,
    )


def saturated(*, at_s: float, completed_rps: Measured, running: Measured = NOTHING) -> LoadSample:
    return replace(EMPTY, at_s=at_s, completed_rps=completed_rps, running=running, waiting=20.0, saturated=True)


def with_figure(sample: LoadSample, field: str, value: Measured) -> LoadSample:
    return replace(sample, **{field: value})  # type: ignore[arg-type]


def taught(samples: Sequence[LoadSample]) -> Learned:
    learned = MODEL.start()
    for sample in samples:
        learned = MODEL.learn(learned, sample)
    return learned


def ask(
    learned: Learned,
    *,
    variant: Variant = BARE,
    slo: Slo = SLO,
    shape: RequestShape | Unknown = SHAPE,
    fleet: int = 10,
) -> ReplicaCapacity:
    answer = MODEL.capacity(learned, variant=variant, shape=shape, slo=slo, fleet=fleet)
    assert isinstance(answer, ReplicaCapacity), answer
    return answer


def over_the_range(step: StepTime, *, count: int = 24, noise: float = 0.0, seed: int = 1) -> list[LoadSample]:
    rng = np.random.default_rng(seed)
    factors = np.exp(rng.normal(0, noise, count))
    return [
        steady(step, rps, at_s=15.0 * i, factor=float(factors[i]))
        for i, rps in enumerate(np.linspace(0.3, 3.5, count).tolist())
    ]


# Windows of one request shape leave open how d, e and a share the slope, and with it how prefills disturb.
SPLIT = 0.2
TRUE_RPS = ask(MODEL.start(), variant=DECLARED).rps


def test_nothing_known_is_unknown() -> None:
    answer = MODEL.capacity(MODEL.start(), variant=BARE, shape=SHAPE, slo=SLO, fleet=1)
    assert isinstance(answer, Unknown)
    assert answer.reason is UnknownReason.NO_OBSERVATIONS


def test_a_profile_answers_before_anything_is_measured() -> None:
    answer = ask(MODEL.start(), variant=DECLARED)
    assert answer.source is CapacitySource.PROFILE
    assert answer.limit is CapacityLimit.ITL
    assert answer.rps < 3.8  # the mean rate


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_windows_over_a_range_are_fitted(noise: float) -> None:
    answer = ask(taught(over_the_range(L40S, noise=noise)))
    assert answer.source is CapacitySource.FITTED
    assert answer.rps == pytest.approx(TRUE_RPS, rel=SPLIT)


def test_a_fit_overrules_a_profile_that_was_wrong() -> None:
    slow = replace(DECLARED, step_time=scaled(L40S, 0.5))
    assert ask(MODEL.start(), variant=slow).rps > 1.5 * TRUE_RPS
    answer = ask(taught(over_the_range(L40S)), variant=slow)
    assert answer.source is CapacitySource.FITTED
    assert answer.rps == pytest.approx(TRUE_RPS, rel=0.05)


def test_one_load_scales_the_profile() -> None:
    """A quarter slower than the profile says, seen at one load only: a fit would be extrapolation, a factor is not."""
    slower = scaled(L40S, 1.25)
    learned = taught([steady(slower, 2.0, at_s=15.0 * i) for i in range(12)])
    answer = ask(learned, variant=DECLARED)
    assert answer.source is CapacitySource.PROFILE
    assert "times 1.25 as measured" in answer.detail
    assert answer.rps == pytest.approx(ask(MODEL.start(), variant=replace(DECLARED, step_time=slower)).rps, rel=0.01)


def test_without_a_profile_one_load_scales_typical_proportions_and_promises_little_beyond() -> None:
    learned = taught([steady(L40S, 0.2, at_s=15.0 * i) for i in range(4)])
    answer = ask(learned)
    assert answer.source is CapacitySource.PROFILE
    assert answer.limit is CapacityLimit.LARGEST_SEEN
    # Four times the batch that was seen is tried, not the whole range that typical proportions would allow.
    assert 0.2 * 2 < answer.rps < 0.2 * 5


def test_an_slo_missed_at_the_only_load_seen_is_answered_by_less_load() -> None:
    heavy = [steady(L40S, 5.6, at_s=15.0 * i) for i in range(4)]
    answer = ask(taught(heavy), slo=Slo(itl_s=0.05))
    assert answer.rps < 5.6 * 0.6
    assert answer.limit is CapacityLimit.ITL


def test_impossible_windows_are_refused_and_said() -> None:
    """ITL in proportion to the batch: an empty step would take no time."""
    samples = [
        replace(
            steady(L40S, 1.0, at_s=15.0 * i),
            itl_s=batch * 1e-3,
            running=batch,
            context_tokens=batch * 1260,
            prefill_tps=5500.0,
        )
        for i, batch in enumerate(np.linspace(2.0, 60.0, 24).tolist())
    ]
    learned = taught([replace(sample, e2e_s=NOTHING) for sample in samples])
    alone = MODEL.capacity(learned, variant=BARE, shape=SHAPE, slo=SLO, fleet=1)
    assert isinstance(alone, Unknown)
    assert alone.reason is UnknownReason.IMPOSSIBLE_FIT
    assert "an empty step would take no time" in alone.detail
    declared = ask(learned, variant=DECLARED)
    assert declared.source is CapacitySource.PROFILE
    assert "fit refused: an empty step would take no time" in declared.detail


def test_saturation_wins_over_a_step_time_that_promises_more() -> None:
    promised = ask(MODEL.start(), variant=DECLARED).rps
    learned = taught([saturated(at_s=15.0 * i, completed_rps=1.0) for i in range(4)])
    answer = ask(learned, variant=DECLARED)
    assert answer.limit is CapacityLimit.SATURATION
    assert answer.rps == pytest.approx(0.8)
    assert f"{promised:.3g} req/s" in answer.detail


def test_saturation_above_the_model_changes_nothing() -> None:
    learned = taught([saturated(at_s=15.0 * i, completed_rps=50.0) for i in range(4)])
    assert ask(learned, variant=DECLARED) == ask(MODEL.start(), variant=DECLARED)


def test_a_model_that_agrees_with_saturation_is_not_cut_further() -> None:
    """Served 3.5 when saturated; that 2.6 are within the SLO is the model's business."""
    learned = taught([saturated(at_s=15.0 * i, completed_rps=3.5) for i in range(4)])
    assert ask(learned, variant=DECLARED).rps == TRUE_RPS


def test_one_saturated_window_does_not_contradict_a_model() -> None:
    learned = taught([saturated(at_s=0.0, completed_rps=0.1)])
    assert ask(learned, variant=DECLARED).rps == TRUE_RPS


def test_saturation_long_ago_does_not_contradict_a_model() -> None:
    old = [saturated(at_s=15.0 * i, completed_rps=1.0) for i in range(4)]
    learned = taught([*old, *(steady(L40S, 2.0, at_s=8000.0 + 15.0 * i) for i in range(4))])
    assert ask(learned, variant=DECLARED).rps == pytest.approx(TRUE_RPS, rel=0.01)


def test_saturation_alone_is_the_capacity() -> None:
    rates = [1.9, 2.1, 2.0, 0.2, 2.0]
    answer = ask(taught([saturated(at_s=15.0 * i, completed_rps=rps) for i, rps in enumerate(rates)]))
    assert answer.source is CapacitySource.OBSERVED
    assert answer.limit is CapacityLimit.SATURATION
    assert answer.rps == pytest.approx(0.8 * 2.0)


def test_right_after_a_start_tokens_tell_the_rate_that_completions_do_not() -> None:
    """4 running at 10 ms a token make 400 tokens/s: 1.9 requests of 211 tokens, though none has ended yet."""
    window = replace(saturated(at_s=0.0, completed_rps=0.0, running=4.0), itl_s=0.010)
    answer = ask(taught([window, replace(window, at_s=15.0)]))
    assert answer.source is CapacitySource.OBSERVED
    assert 0.499 * 400 / 211 < answer.rps < 400 / 211


def test_many_servers_are_used_more_fully_than_few() -> None:
    few, many = (
        ask(taught([saturated(at_s=15.0 * i, completed_rps=2.0, running=running) for i in range(3)]))
        for running in (2.0, 128.0)
    )
    assert 0.5 * 2.0 <= few.rps < many.rps <= 0.95 * 2.0


def test_the_plateau_of_running_is_taken_for_max_num_seqs() -> None:
    """An engine that holds 8 sequences and no more, which no page says."""
    quiet = over_the_range(L40S, count=12)[:8]
    full = [
        replace(steady(L40S, 1.4, at_s=1000.0 + 15.0 * i), running=8.0, waiting=30.0, saturated=True) for i in range(4)
    ]
    learned = taught([*quiet, *full])
    unbounded = ask(learned, variant=replace(DECLARED, max_num_seqs=512), slo=Slo(itl_s=0.05))
    learnt = ask(learned, variant=DECLARED, slo=Slo(itl_s=0.05, ttft_s=2.0))
    told = ask(learned, variant=replace(DECLARED, max_num_seqs=8), slo=Slo(itl_s=0.05, ttft_s=2.0))
    assert learnt.rps <= told.rps * 1.05
    assert learnt.rps < unbounded.rps


def test_durations_alone_give_littles_law() -> None:
    """Up to 4 at once took 2 s each, as alone: 8 at once may be tried, 0.8 * 8 / 2 s."""
    samples = [
        replace(EMPTY, at_s=15.0 * i, completed_rps=at_once / 2.0, e2e_s=2.0)
        for i, at_once in enumerate([0.5, 1.0, 2.0, 4.0])
    ]
    answer = ask(taught(samples), shape=NOTHING)
    assert answer.source is CapacitySource.LITTLE
    assert answer.limit is CapacityLimit.UNLOADED_DURATION
    assert answer.rps == pytest.approx(3.2)


def test_a_queue_does_not_raise_what_durations_allow() -> None:
    """In-flight with its queue grows with the load; were it taken for concurrency, the capacity would follow it."""
    calm = [replace(EMPTY, at_s=15.0 * i, completed_rps=1.0, e2e_s=2.0) for i in range(4)]
    before = ask(taught(calm), shape=NOTHING).rps
    queued = [replace(EMPTY, at_s=60.0 + 15.0 * i, completed_rps=2.0, e2e_s=2.0 * 2**i) for i in range(2, 8)]
    assert ask(taught([*calm, *queued]), shape=NOTHING).rps <= before * 1.01


def test_declared_slots_bound_what_durations_allow() -> None:
    samples = [replace(EMPTY, at_s=15.0 * i, completed_rps=0.1, e2e_s=2.0) for i in range(4)]
    answer = ask(taught(samples), variant=replace(BARE, max_num_seqs=4), shape=NOTHING)
    assert answer.rps == pytest.approx(0.8 * 4 / 2.0)


FIELDS = ("itl_s", "running", "context_tokens", "prefill_tps", "arrival_rps", "completed_rps", "e2e_s", "waiting")


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    "bad", [NOTHING, float("nan"), float("inf"), -1.0, 1e300], ids=["unknown", "nan", "inf", "negative", "absurd"]
)
def test_a_window_without_one_figure_spoils_nothing(field: str, bad: Measured) -> None:
    good = over_the_range(L40S)
    spoilt = [with_figure(replace(sample, at_s=400.0 + sample.at_s), field, bad) for sample in good]
    answer = ask(taught([*good, *spoilt]))
    assert answer.source is CapacitySource.FITTED
    assert answer.rps == pytest.approx(ask(taught(good)).rps, rel=0.02)


@pytest.mark.parametrize("field", ["itl_s", "running", "context_tokens", "prefill_tps"])
def test_a_fit_needs_all_its_figures(field: str) -> None:
    windows = [with_figure(replace(sample, e2e_s=NOTHING), field, NOTHING) for sample in over_the_range(L40S)]
    answer = MODEL.capacity(taught(windows), variant=BARE, shape=SHAPE, slo=SLO, fleet=1)
    assert isinstance(answer, Unknown)
    assert answer.reason is UnknownReason.NO_OBSERVATIONS


@pytest.mark.parametrize("field", ["arrival_rps", "completed_rps", "e2e_s", "waiting"])
def test_a_fit_needs_no_more_than_its_figures(field: str) -> None:
    answer = ask(taught([with_figure(sample, field, NOTHING) for sample in over_the_range(L40S)]))
    assert answer.source is CapacitySource.FITTED


def test_a_mostly_idle_window_counts_as_a_batch_of_one() -> None:
    """Tokens are only made, and their ITL only measured, while something runs."""
    trickle = [steady(L40S, 0.02 + 0.002 * i, at_s=15.0 * i) for i in range(12)]
    busy = over_the_range(L40S)
    answer = ask(taught([*trickle, *busy]))
    assert answer.rps == pytest.approx(TRUE_RPS, rel=SPLIT)


def test_an_hour_at_one_load_does_not_push_out_the_others() -> None:
    learned = taught(over_the_range(L40S))
    for i in range(240):
        learned = MODEL.learn(learned, steady(L40S, 2.0, at_s=1000.0 + 15.0 * i))
    answer = ask(learned)
    assert answer.source is CapacitySource.FITTED
    assert answer.rps == pytest.approx(TRUE_RPS, rel=SPLIT)


def test_a_new_engine_version_is_learned() -> None:
    learned = taught(over_the_range(L40S, count=60))
    faster = scaled(L40S, 0.6)
    for i, sample in enumerate(over_the_range(faster, count=60)):
        learned = MODEL.learn(learned, replace(sample, at_s=90_000.0 + 15.0 * i))
    expected = ask(MODEL.start(), variant=replace(DECLARED, step_time=faster)).rps
    assert ask(learned).rps == pytest.approx(expected, rel=SPLIT)


def test_memory_is_bounded() -> None:
    learned = MODEL.start()
    rng = np.random.default_rng(3)
    for i in range(3000):
        rps = float(rng.uniform(0.01, 6.0))
        learned = MODEL.learn(learned, replace(steady(L40S, rps, at_s=15.0 * i), saturated=bool(i % 7 == 0)))
    assert sum(array.nbytes for array in learned.arrays.values()) <= 8192


def test_a_clock_that_stepped_back_teaches_on() -> None:
    samples = over_the_range(L40S)
    learned = taught([*(replace(sample, at_s=sample.at_s + 1e6) for sample in samples), *samples])
    assert ask(learned).rps == pytest.approx(TRUE_RPS, rel=SPLIT)


def test_another_estimators_memory_is_refused() -> None:
    foreign = Learned("mixture", {})
    calls: list[Callable[[], object]] = [
        lambda: MODEL.learn(foreign, EMPTY),
        lambda: MODEL.capacity(foreign, variant=BARE, shape=SHAPE, slo=SLO, fleet=1),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="'mixture' estimator can't be read as that of 'step-time'"):
            call()


@settings(max_examples=40, deadline=None)
@given(slowness=st.floats(0.3, 4.0), noise=st.floats(0.0, 0.1), seed=st.integers(0, 1000))
def test_a_noisy_fit_stays_near_the_truth(slowness: float, noise: float, seed: int) -> None:
    """CPU engines jitter; an answer from 40 noisy windows is still of the right size."""
    step = scaled(L40S, slowness)
    slo = Slo(itl_s=0.05 * slowness)
    rng = np.random.default_rng(seed)
    factors = np.exp(rng.normal(0, noise, 40)).tolist()
    rates = (rng.uniform(0.2, 3.5, 40) / slowness).tolist()
    windows = [
        steady(step, rps, at_s=15.0 * i, factor=factor)
        for i, (rps, factor) in enumerate(zip(rates, factors, strict=True))
    ]
    answer = MODEL.capacity(taught(windows), variant=BARE, shape=SHAPE, slo=slo, fleet=10)
    truth = ask(MODEL.start(), variant=replace(BARE, step_time=step), slo=slo)
    if isinstance(answer, ReplicaCapacity):
        assert 0.6 * truth.rps < answer.rps < 1.6 * truth.rps
    else:
        assert answer.reason in (UnknownReason.IMPOSSIBLE_FIT, UnknownReason.UNSATISFIABLE)
