"""What counts as a sign of work between two pages: a request, a token, a gap between tokens, or a step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.domain.cluster import Phase, Replica
from autoscaler.domain.params import Params
from autoscaler.domain.reading import EngineReading, Histogram, Unknown, UnknownReason
from autoscaler.domain.service import ServiceId
from autoscaler.domain.state import ReplicaTrack
from autoscaler.policy.progress import observe

ABSENT = Unknown(UnknownReason.NOT_EXPORTED)
# One request runs, of an engine that counts tokens and requests only when they end.
WORKING = EngineReading(
    replica="r",
    at_s=100.0,
    engine="tgi",
    started_s=ABSENT,
    asleep=False,
    waiting=0.0,
    running=1.0,
    kv_fraction=ABSENT,
    kv_capacity_tokens=ABSENT,
    completed=7.0,
    refused=0.0,
    preemptions=ABSENT,
    prompt_tokens=70.0,
    generation_tokens=700.0,
    arrivals_stock=8.0,
    ttft=ABSENT,
    itl=Histogram((), (), 40.0, 2.0),
    e2e=ABSENT,
    queue_time=ABSENT,
    prompt_length=ABSENT,
    output_length=ABSENT,
    steps=500.0,
)
REPLICA = Replica(name="r", service=ServiceId("s"), variant="v", phase=Phase.READY, created_s=0.0, ready_s=0.0)


def flat_since_s(later: EngineReading) -> float | None:
    track, _ = observe(
        REPLICA, replace(later, at_s=101.0), ReplicaTrack(reading=WORKING, rate_rps=0.0), now_s=101.0, params=Params()
    )
    assert track is not None
    return track.flat_since_s


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(replace(WORKING, steps=501.0), id="a step"),
        pytest.param(replace(WORKING, itl=Histogram((), (), 41.0, 2.1)), id="a gap between tokens"),
        pytest.param(replace(WORKING, generation_tokens=701.0), id="a token"),
        pytest.param(replace(WORKING, completed=8.0, running=0.0), id="a request"),
        pytest.param(replace(WORKING, running=0.0, arrivals_stock=7.0), id="nothing left to do"),
    ],
)
def test_an_engine_with_a_sign_of_work_or_without_work_is_not_flat(later: EngineReading) -> None:
    assert flat_since_s(later) is None


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(WORKING, id="all known"),
        pytest.param(replace(WORKING, steps=ABSENT, itl=ABSENT), id="only those that move at the end"),
    ],
)
def test_an_engine_with_work_and_no_sign_of_it_is_flat_since_its_last_page(later: EngineReading) -> None:
    assert flat_since_s(later) == 100.0


def test_an_engine_that_shows_no_sign_at_all_is_not_judged() -> None:
    nothing = replace(WORKING, steps=ABSENT, itl=ABSENT, generation_tokens=ABSENT, completed=ABSENT)
    assert flat_since_s(nothing) is None
