"""What is learned of a batch server from its windows."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from autoscaler.domain.capacity import CapacityLimit, CapacitySource, LoadSample, ReplicaCapacity, StepTime
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.service import Slo, Variant
from predictors import batch_memory
from predictors.batch_time import BatchTime, rate_in_time
from predictors.capacity import StepTimeCapacity

NONE = Unknown(UnknownReason.NO_OBSERVATIONS)
TRUTH = BatchTime(alpha_s=0.02, beta_s=0.005)
TRUTH_FULL_RPS = 8 / TRUTH.of(8)
SLO = Slo(queue_s=0.05)


def window(at_s: float, batch: float, *, exec_s: float | None = None, executing: float = 0.6) -> LoadSample:
    return LoadSample(
        at_s=at_s,
        itl_s=NONE,
        running=NONE,
        context_tokens=NONE,
        prefill_tps=0.0,
        arrival_rps=10.0,
        completed_rps=10.0,
        e2e_s=NONE,
        waiting=0.0,
        saturated=False,
        batch=batch,
        exec_s=TRUTH.of(batch) if exec_s is None else exec_s,
        executing=executing,
    )


def rows(*batches: float) -> np.ndarray:
    kept = batch_memory.empty()
    for at_s, batch in enumerate(batches):
        kept = batch_memory.with_window(kept, window(float(at_s), batch))
    return kept


def test_windows_of_several_sizes_tell_what_an_execution_costs() -> None:
    fitted = batch_memory.fitted(rows(1, 2, 4, 6, 8, 3, 5))
    assert fitted.alpha_s == pytest.approx(TRUTH.alpha_s, rel=0.15)
    assert fitted.beta_s == pytest.approx(TRUTH.beta_s, rel=0.15)


def test_one_size_promises_nothing_from_batching() -> None:
    fitted = batch_memory.fitted(rows(4, 4, 4))
    assert fitted.of(4) == pytest.approx(TRUTH.of(4), rel=0.05)
    assert fitted.of(8) >= 1.5 * TRUTH.of(4)


@pytest.mark.parametrize(
    "batches", [pytest.param((1.2, 1.5, 1.9, 2.3), id="small"), pytest.param((2, 3, 4, 5), id="some")]
)
def test_windows_of_sizes_near_one_another_outweigh_the_caution_as_they_come(batches: tuple[float, ...]) -> None:
    fitted = batch_memory.fitted(rows(*batches * 3))
    assert fitted.alpha_s == pytest.approx(TRUTH.alpha_s, rel=0.1)


def test_an_hour_at_one_load_does_not_push_out_what_was_learned_at_others() -> None:
    kept = rows(1, 8, *[3.0] * 200)
    assert {1.0, 3.0, 8.0} <= set(kept[:, 1].tolist())
    assert len(kept) <= 48


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"batch": NONE}, id="no batch"),
        pytest.param({"batch": 0.0}, id="no item in a batch"),
        pytest.param({"exec_s": -1.0}, id="an execution before its start"),
        pytest.param({"exec_s": float("inf")}, id="for ever"),
        pytest.param({"executing": NONE}, id="no count of executions"),
    ],
)
def test_an_impossible_window_teaches_nothing(changes: dict[str, object]) -> None:
    odd = dataclasses.replace(window(0.0, 2.0), **changes)  # type: ignore[arg-type]
    assert len(batch_memory.with_window(batch_memory.empty(), odd)) == 0


def learned(*samples: LoadSample, variant: Variant) -> ReplicaCapacity | Unknown:
    model = StepTimeCapacity()
    memory = model.start()
    for sample in samples:
        memory = model.learn(memory, sample)
    return model.capacity(memory, variant=variant, shape=NONE, slo=SLO, fleet=2)


def test_its_rate_is_that_of_its_batch_time() -> None:
    known = learned(
        *[window(float(at_s), at_s % 8 + 1) for at_s in range(24)], variant=Variant(name="x", max_num_seqs=16)
    )
    true = rate_in_time(TRUTH, SLO, largest=16)
    assert isinstance(known, ReplicaCapacity)
    assert known.limit is CapacityLimit.BATCH
    assert known.rps == pytest.approx(true, rel=0.15)


def test_without_its_largest_batch_only_twice_the_largest_seen_is_counted_on() -> None:
    known = learned(window(0.0, 1.0), window(1.0, 2.0), variant=Variant(name="x"))
    assert isinstance(known, ReplicaCapacity)
    assert known.limit is CapacityLimit.LARGEST_SEEN
    most = rate_in_time(TRUTH, SLO, largest=4)
    assert most is not None
    assert known.rps <= 1.1 * most


def test_two_instances_are_seen_by_their_executions() -> None:
    one = learned(*[window(float(at_s), at_s % 8 + 1) for at_s in range(16)], variant=Variant(name="x", max_num_seqs=8))
    busier = [window(float(at_s), at_s % 8 + 1, executing=1.6) for at_s in range(16)]
    two = learned(*busier, variant=Variant(name="x", max_num_seqs=8))
    assert isinstance(one, ReplicaCapacity)
    assert isinstance(two, ReplicaCapacity)
    assert two.rps == pytest.approx(2 * one.rps)


DECLARED = Variant(name="x", max_num_seqs=8, step_time=StepTime(c_s=TRUTH.alpha_s, d_s=TRUTH.beta_s, e_s=0.0, a_s=0.0))


def test_what_is_declared_is_the_capacity_until_the_first_window() -> None:
    known = learned(variant=DECLARED)
    assert isinstance(known, ReplicaCapacity)
    assert known.source is CapacitySource.PROFILE
    assert known.rps == rate_in_time(TRUTH, SLO, largest=8)


def test_what_is_declared_tells_apart_what_windows_of_one_size_can_not() -> None:
    known = learned(*[window(float(at_s), 2) for at_s in range(4)], variant=DECLARED)
    assert isinstance(known, ReplicaCapacity)
    assert known.source is CapacitySource.FITTED
    assert known.rps == pytest.approx(rate_in_time(TRUTH, SLO, largest=8), rel=0.05)


def test_what_is_seen_outweighs_a_wrong_declaration() -> None:
    wrong = dataclasses.replace(DECLARED, step_time=StepTime(c_s=0.2, d_s=0.05, e_s=0.0, a_s=0.0))
    known = learned(*[window(float(at_s), at_s % 8 + 1) for at_s in range(24)], variant=wrong)
    assert isinstance(known, ReplicaCapacity)
    assert known.rps == pytest.approx(rate_in_time(TRUTH, SLO, largest=8), rel=0.1)


@pytest.mark.parametrize(
    ("step", "slo"),
    [
        pytest.param(StepTime(c_s=0.02, d_s=0.005, e_s=1e-6, a_s=0.0), Slo(queue_s=0.05), id="a term for contexts"),
        pytest.param(StepTime(c_s=0.02, d_s=0.005, e_s=0.0, a_s=1e-6), Slo(queue_s=0.05), id="a term for prompts"),
        pytest.param(StepTime(c_s=0.02, d_s=0.005, e_s=0.0, a_s=0.0), Slo(itl_s=0.05), id="tokens are promised"),
    ],
)
def test_what_is_declared_of_tokens_is_no_batch_time(step: StepTime, slo: Slo) -> None:
    model = StepTimeCapacity()
    variant = Variant(name="x", max_num_seqs=8, step_time=step)
    assert isinstance(model.capacity(model.start(), variant=variant, shape=NONE, slo=slo, fleet=1), Unknown)


def test_one_window_is_no_proof_of_another_instance() -> None:
    known = Variant(name="x", max_num_seqs=8)
    odd = [window(float(at_s), at_s % 8 + 1, executing=1.9 if at_s == 5 else 0.9) for at_s in range(16)]
    found = learned(*odd, variant=known)
    assert isinstance(found, ReplicaCapacity)
    assert found.rps <= TRUTH_FULL_RPS


@pytest.mark.parametrize("executing", [1.0, 1.1, 1.2])
def test_a_busy_instance_is_one_though_its_window_cuts_executions(executing: float) -> None:
    known = Variant(name="x", max_num_seqs=8)
    busy = learned(*[window(float(at_s), at_s % 8 + 1, executing=executing) for at_s in range(16)], variant=known)
    assert isinstance(busy, ReplicaCapacity)
    assert busy.rps <= TRUTH_FULL_RPS


def test_an_slo_out_of_reach_is_said() -> None:
    model = StepTimeCapacity()
    memory = model.learn(model.start(), window(0.0, 1.0))
    slow = model.capacity(memory, variant=Variant(name="x"), shape=NONE, slo=Slo(e2e_s=0.01), fleet=1)
    assert isinstance(slow, Unknown)
    assert slow.reason is UnknownReason.UNSATISFIABLE
