"""The contract of every CapacityModel: pure, safe on any window, and its memory a value that travels."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.codec import decode, encode
from autoscaler.domain.capacity import LoadSample, ReplicaCapacity, RequestShape, StepTime
from autoscaler.domain.learned import Learned
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.service import Slo, Variant
from autoscaler.ports import CapacityModel
from predictors.capacity import StepTimeCapacity

MODELS = [
    pytest.param(StepTimeCapacity(), id="step time"),
    pytest.param(StepTimeCapacity(batch_tokens=512), id="step time, small steps"),
]

nothing = st.sampled_from(UnknownReason).map(Unknown)
figure = nothing | st.floats(allow_nan=True, allow_infinity=True) | st.floats(0, 1e4)
samples = st.builds(
    LoadSample,
    at_s=st.floats(0, 1e7),
    itl_s=nothing | st.floats(1e-4, 1.0),
    running=figure,
    context_tokens=figure,
    prefill_tps=figure,
    arrival_rps=figure,
    completed_rps=figure,
    e2e_s=figure,
    waiting=figure,
    saturated=st.booleans(),
)
plain_samples = st.builds(
    LoadSample,
    at_s=st.floats(0, 1e7),
    itl_s=st.floats(1e-3, 0.2),
    running=st.floats(0, 300),
    context_tokens=st.floats(0, 4e5),
    prefill_tps=st.floats(0, 1e5),
    arrival_rps=st.floats(0, 50),
    completed_rps=st.floats(0, 50),
    e2e_s=st.floats(0.1, 60),
    waiting=st.floats(0, 300),
    saturated=st.booleans(),
)
histories = st.lists(samples, max_size=30) | st.lists(plain_samples, max_size=60)
variants = st.builds(
    Variant,
    name=st.just("gpu"),
    step_time=st.none() | st.just(StepTime(c_s=0.022, d_s=3.5e-5, e_s=1.9e-7, a_s=7.7e-5)),
    max_num_seqs=st.none() | st.integers(1, 512),
    kv_tokens=st.none() | st.floats(100, 1e6),
)
slos = st.builds(
    Slo,
    ttft_s=st.none() | st.floats(0.05, 30),
    itl_s=st.none() | st.floats(0.005, 1),
    queue_s=st.none() | st.floats(0.05, 30),
    e2e_s=st.floats(0.5, 300),
    share=st.floats(0.5, 0.999),
)
shapes = st.builds(RequestShape.of_means, st.floats(1, 1e4), st.floats(1, 4e3)) | nothing


def taught(model: CapacityModel, history: list[LoadSample]) -> Learned:
    learned = model.start()
    for sample in history:
        learned = model.learn(learned, sample)
    return learned


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=150, deadline=None)
@given(history=histories, variant=variants, shape=shapes, slo=slos, fleet=st.integers(1, 100))
def test_a_finite_rate_or_a_reason(
    model: CapacityModel,
    *,
    history: list[LoadSample],
    variant: Variant,
    shape: RequestShape | Unknown,
    slo: Slo,
    fleet: int,
) -> None:
    learned = taught(model, history)
    answer = model.capacity(learned, variant=variant, shape=shape, slo=slo, fleet=fleet)
    if isinstance(answer, ReplicaCapacity):
        assert math.isfinite(answer.rps)
        assert answer.rps > 0
    assert all(np.isfinite(array).all() for array in learned.arrays.values())
    assert sum(array.nbytes for array in learned.arrays.values()) <= 8192


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=50, deadline=None)
@given(history=histories, sample=samples | plain_samples, variant=variants, slo=slos)
def test_learning_and_asking_change_nothing_they_were_given(
    model: CapacityModel, *, history: list[LoadSample], sample: LoadSample, variant: Variant, slo: Slo
) -> None:
    learned = taught(model, history)
    before = encode(learned)
    for array in learned.arrays.values():
        array.flags.writeable = False
    shape = RequestShape.of_means(500, 200)
    first = model.learn(learned, sample)
    asked = model.capacity(learned, variant=variant, shape=shape, slo=slo, fleet=3)
    assert encode(learned) == before
    assert encode(model.learn(learned, sample)) == encode(first)
    assert model.capacity(learned, variant=variant, shape=shape, slo=slo, fleet=3) == asked


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=50, deadline=None)
@given(history=histories, sample=samples | plain_samples, variant=variants, shape=shapes, slo=slos)
def test_a_memory_that_was_written_and_read_is_the_same_memory(
    model: CapacityModel,
    *,
    history: list[LoadSample],
    sample: LoadSample,
    variant: Variant,
    shape: RequestShape | Unknown,
    slo: Slo,
) -> None:
    learned = taught(model, history)
    restored = decode(Learned, encode(learned))
    assert encode(restored) == encode(learned)
    assert encode(model.learn(restored, sample)) == encode(model.learn(learned, sample))
    assert model.capacity(restored, variant=variant, shape=shape, slo=slo, fleet=2) == model.capacity(
        learned, variant=variant, shape=shape, slo=slo, fleet=2
    )


@pytest.mark.parametrize("model", MODELS)
def test_a_window_that_says_nothing_teaches_nothing(model: CapacityModel) -> None:
    said = LoadSample(
        at_s=1.0,
        itl_s=0.03,
        running=4.0,
        context_tokens=4000.0,
        prefill_tps=900.0,
        arrival_rps=1.0,
        completed_rps=1.0,
        e2e_s=5.0,
        waiting=0.0,
        saturated=False,
    )
    none = Unknown(UnknownReason.UNREACHABLE)
    silent = replace(
        said,
        at_s=2.0,
        itl_s=none,
        running=none,
        context_tokens=none,
        prefill_tps=none,
        arrival_rps=none,
        completed_rps=none,
        e2e_s=none,
        waiting=none,
        saturated=True,
    )
    learned = model.learn(model.start(), said)
    assert encode(model.learn(learned, silent)) == encode(learned)
