"""Times of a batch server's executions, counted once for each, beside those counted once for each request."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.domain.reading import EngineReading, Unknown, UnknownReason
from autoscaler.domain.state import BatchLoad, Increment, VariantLoad
from autoscaler.policy.progress import Progress, progress
from autoscaler.policy.windows import batches, replica_seconds

NONE = Unknown(UnknownReason.NOT_EXPORTED)
ALPHA_S, BETA_S = 0.4, 0.05


def reading(at_s: float, executed: list[int], *, statistics: bool = True) -> EngineReading:
    """A server that has executed these batches, each of ALPHA_S + BETA_S x batch seconds."""
    took_s = [ALPHA_S + BETA_S * batch for batch in executed]
    return EngineReading(
        replica="timed-1",
        at_s=at_s,
        engine="triton",
        started_s=NONE,
        asleep=False,
        waiting=0.0,
        running=NONE,
        kv_fraction=NONE,
        kv_capacity_tokens=NONE,
        completed=float(sum(executed)),
        refused=0.0,
        preemptions=NONE,
        prompt_tokens=NONE,
        generation_tokens=NONE,
        arrivals_stock=float(sum(executed)),
        ttft=NONE,
        itl=NONE,
        e2e=NONE,
        queue_time=NONE,
        prompt_length=NONE,
        output_length=NONE,
        exec_count=float(len(executed)),
        exec_items=float(sum(executed)),
        exec_sum_s=sum(batch * took for batch, took in zip(executed, took_s, strict=True)),
        exec_time_s=sum(took_s) if statistics else NONE,
    )


def load(before: EngineReading, after: EngineReading) -> BatchLoad:
    done = progress(after, before, since_s=before.at_s)
    assert isinstance(done, Progress)
    assert done.batches is not None
    return done.batches


BATCHES = st.lists(st.integers(1, 8), min_size=1, max_size=20)


@given(BATCHES, BATCHES)
def test_the_mean_batch_and_the_mean_time_are_of_the_same_executions(before: list[int], new: list[int]) -> None:
    """So the two terms fit, whatever the mix of sizes; over requests large batches weigh more."""
    added = load(reading(0.0, before), reading(5.0, before + new))
    assert added.exec_time_s is not None
    mean_s, mean_batch = added.exec_time_s / added.executions, added.items / added.executions
    assert mean_s == pytest.approx(ALPHA_S + BETA_S * mean_batch)
    assert added.exec_sum_s / added.requests >= mean_s - 1e-9


@pytest.mark.parametrize("told", [(False, True), (True, False), (False, False)], ids=["since", "until", "never"])
def test_without_both_ends_the_time_is_not_told(told: tuple[bool, bool]) -> None:
    before, after = (reading(5.0 * at, [4] * (at + 1), statistics=each) for at, each in enumerate(told))
    assert load(before, after).exec_time_s is None


def test_a_server_without_statistics_leaves_the_times_over_requests_to_all() -> None:
    told = load(reading(0.0, []), reading(5.0, [2, 4]))
    together = batches([told, replace(told, exec_time_s=None)])
    assert together is not None
    assert together.exec_time_s is None
    assert together.exec_sum_s == 2 * told.exec_sum_s
    both = batches([told, told])
    assert both is not None
    assert (both.executions, both.items, both.requests) == (4.0, 12.0, 12.0)
    assert both.exec_time_s == pytest.approx(2.2)


def test_replica_seconds_are_exact_while_the_number_of_replicas_changes() -> None:
    increments = [
        Increment(
            end_s=float(end_s),
            span_s=1.5,
            arrivals=0.0,
            observed_s=0.0,
            live_s=0.0,
            judged=0.0,
            within_slo=0.0,
            gateway=False,
            loads=(idle("default", replicas), idle("other", 9)),
        )
        for end_s, replicas in enumerate((1, 1, 2, 3))
    ]
    assert replica_seconds(increments, "default") == 10.5
    assert replica_seconds(increments, "none") == 0.0


def idle(variant: str, replicas: int) -> VariantLoad:
    return VariantLoad(
        variant=variant,
        replicas=replicas,
        arrivals=0.0,
        completed=0.0,
        prompt_tokens=0.0,
        itl_sum_s=0.0,
        itl_count=0.0,
        e2e_sum_s=0.0,
        e2e_count=0.0,
        running=0.0,
        waiting=0.0,
        saturated=False,
    )
