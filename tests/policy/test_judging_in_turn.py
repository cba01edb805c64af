"""Each request is judged once, out of histograms that tell of it at its first token and at its end."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.domain.reading import (
    EngineReading,
    Histogram,
    MaybeHistogram,
    Observations,
    Unknown,
    UnknownReason,
)
from autoscaler.domain.service import Slo
from autoscaler.policy.judging import Verdicts, judge
from autoscaler.policy.progress import Progress, progress
from tests.policy.world import World, service

SLO = Slo(ttft_s=1.0, itl_s=0.05)
ABSENT = Unknown(UnknownReason.NOT_EXPORTED)
NONE_YET = Histogram((0.05, 1.0), (0.0, 0.0), 0.0, 0.0)


@dataclass(frozen=True)
class Request:
    """``first``: the tick of its first token; ``end``: that of its last; ``tokens`` 1: it has no gap."""

    first: int
    end: int
    late: bool
    slow: bool
    tokens: int = 100


def reading(requests: Sequence[Request], tick: int, *, counts_single: bool = True) -> EngineReading:
    """A page at the end of this tick. ``counts_single``: a request of one token has a mean gap, of 0."""
    first = [each for each in requests if each.first <= tick]
    ended = [each for each in requests if each.end <= tick]
    meant = [each for each in ended if each.tokens > 1 or counts_single]
    in_time, fast = sum(not each.late for each in first), sum(not each.slow or each.tokens == 1 for each in meant)
    return EngineReading(
        replica="r",
        at_s=float(tick),
        engine="vllm",
        started_s=-1.0,
        asleep=False,
        waiting=0.0,
        running=float(len(first) - len(ended)),
        kv_fraction=ABSENT,
        kv_capacity_tokens=ABSENT,
        completed=float(len(ended)),
        refused=0.0,
        preemptions=ABSENT,
        prompt_tokens=float(len(first)),
        generation_tokens=float(len(first)),
        arrivals_stock=float(len(first)),
        ttft=Histogram((1.0,), (float(in_time),), float(len(first)), 0.0),
        itl=ABSENT,
        e2e=ABSENT,
        queue_time=ABSENT,
        prompt_length=ABSENT,
        output_length=ABSENT,
        request_itl=Histogram((0.05,), (float(fast),), float(len(meant)), 0.0),
    )


def verdicts(requests: Sequence[Request], *, slo: Slo = SLO, counts_single: bool = True) -> list[Verdicts]:
    """Of each tick, until the last has ended."""
    told: list[Verdicts] = []
    ticks = range(-1, max(each.end for each in requests) + 1)
    pages = [reading(requests, tick, counts_single=counts_single) for tick in ticks]
    for then, now in itertools.pairwise(pages):
        done = progress(now, then, since_s=then.at_s)
        assert isinstance(done, Progress)
        told.append(judge(slo, done, late=told[-1].late if told else 0.0))
    return told


@st.composite
def many_requests(draw: st.DrawFn) -> list[Request]:
    made = []
    for _ in range(draw(st.integers(1, 40))):
        first = draw(st.integers(0, 8))
        tokens = draw(st.sampled_from([1, 2, 100]))
        end = first if tokens == 1 else first + draw(st.integers(0, 6))
        late, slow = draw(st.booleans()), tokens > 1 and draw(st.booleans())
        made.append(Request(first=first, end=end, late=late, slow=slow, tokens=tokens))
    return made


@given(many_requests(), st.booleans())
def test_each_request_is_judged_once_and_never_missed_twice(requests: list[Request], counts_single: bool) -> None:  # noqa: FBT001
    told = verdicts(requests, counts_single=counts_single)
    assert all(-1e-9 <= each.within <= each.judged + 1e-9 for each in told)
    assert sum(each.judged for each in told) == pytest.approx(len(requests))
    assert told[-1].late == pytest.approx(0)
    missed = sum(each.judged - each.within for each in told)
    late, slow = sum(each.late for each in requests), sum(each.slow for each in requests)
    assert max(late, slow) - 1e-6 <= missed <= min(late + slow, len(requests)) + 1e-6


def test_a_late_first_token_is_told_at_once_and_not_again_at_the_end() -> None:
    told = verdicts([Request(first=0, end=3, late=True, slow=True)] * 10)
    assert [(each.judged, each.judged - each.within, each.late) for each in told] == [
        (10, 10, 10),
        (0, 0, 10),
        (0, 0, 10),
        (0, 0, 0),
    ]


def test_a_slow_answer_is_missed_when_it_ends() -> None:
    told = verdicts([Request(first=0, end=2, late=False, slow=True), Request(first=0, end=2, late=False, slow=False)])
    assert [(each.judged, each.within) for each in told] == [(0, 0), (0, 0), (2, 1)]


@pytest.mark.parametrize("counts_single", [pytest.param(True, id="as 0"), pytest.param(False, id="not at all")])
def test_a_request_of_one_token_has_no_gap_to_miss(counts_single: bool) -> None:  # noqa: FBT001
    one = Request(first=0, end=0, late=False, slow=False, tokens=1)
    assert verdicts([one] * 4, counts_single=counts_single) == [Verdicts(4, 4, 0)]


def test_aborted_requests_leave_no_lasting_credit() -> None:
    """Late at their first token and given up by their clients: they are on no page's end, and no longer running."""
    before = reading([], 0)
    late = replace(before, at_s=1.0, ttft=Histogram((1.0,), (0.0,), 9.0, 0.0), running=9.0)
    gone = replace(late, at_s=2.0, running=0.0)
    assert judge(SLO, since(before, late), late=0.0) == Verdicts(9, 0, 9)
    assert judge(SLO, since(late, gone), late=9.0).late == 0


def since(then: EngineReading, now: EngineReading) -> Progress:
    done = progress(now, then, since_s=then.at_s)
    assert isinstance(done, Progress)
    return done


def page(at_s: float, *, means: MaybeHistogram, gaps: MaybeHistogram, **others: MaybeHistogram) -> EngineReading:
    plain = replace(reading([], 0), at_s=at_s, ttft=Histogram((1.0,), (at_s,), at_s, 0.0), completed=at_s)
    return replace(plain, itl=gaps, request_itl=means, **others)  # type: ignore[arg-type]


SOME_GAPS_ARE_LONG = Histogram((0.05, 1.0), (980.0, 1000.0), 1000.0, 30.0)
ALL_MEANS_ARE_SHORT = Histogram((0.05, 1.0), (10.0, 10.0), 10.0, 0.3)


@pytest.mark.parametrize(
    ("means", "before", "missed"),
    [
        pytest.param(ALL_MEANS_ARE_SHORT, NONE_YET, 0.0, id="by their mean gap"),
        pytest.param(ABSENT, ABSENT, 0.2, id="by single gaps where there is no mean"),
        pytest.param(Histogram((), (), 10.0, 0.3), Histogram((), (), 0.0, 0.0), 0.2, id="a sum alone is no histogram"),
    ],
)
def test_ten_requests_with_a_few_long_gaps(means: MaybeHistogram, before: MaybeHistogram, missed: float) -> None:
    then = page(0.0, means=before, gaps=NONE_YET)
    told = judge(SLO, since(then, page(10.0, means=means, gaps=SOME_GAPS_ARE_LONG)), late=0.0)
    assert told.judged == pytest.approx(10)
    assert told.judged - told.within == pytest.approx(missed)


def test_without_means_single_gaps_count_among_what_is_told_at_the_end() -> None:
    slo = replace(SLO, e2e_s=5.0)
    none, whole = Histogram((5.0,), (0.0,), 0.0, 0.0), Histogram((5.0,), (10.0,), 10.0, 9.0)
    then, now = page(0.0, means=ABSENT, gaps=NONE_YET, e2e=none), page(10.0, means=ABSENT, gaps=SOME_GAPS_ARE_LONG)
    told = judge(slo, since(then, replace(now, e2e=whole)), late=0.0)
    assert told.judged == pytest.approx(10)
    assert told.judged - told.within == pytest.approx(0.2)


def test_a_restarted_engine_owes_nothing_of_before() -> None:
    world = World(services=(service(slo=SLO),))
    world.start(1)
    (name,) = world.ready()
    before = replace(reading([], 0), replica=name, started_s=world.now_s - 3600)
    late = replace(before, ttft=Histogram((1.0,), (0.0,), 9.0, 0.0), running=9.0, arrivals_stock=9.0)
    for each, kept in ((before, 0), (late, 9), (replace(before, started_s=world.now_s + 40), 0)):
        world.now_s += world.params.interval_s
        engines: dict[str, EngineReading | Unknown] = {name: replace(each, at_s=world.now_s)}
        world.decide(Observations(at_s=world.now_s, engines=engines, gateways={}))
        assert world.state.services[world.services[0].id].tracks[name].late == kept
