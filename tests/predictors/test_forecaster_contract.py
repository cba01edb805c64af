"""What every ``Forecaster`` promises, each promise on each of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from autoscaler import codec
from autoscaler.domain.demand import Forecast
from autoscaler.domain.learned import Learned
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.ports import Forecaster, MeasuredRate, Question
from predictors.mixture import LevelMixture
from predictors.naive import LastValue
from predictors.seasonal import SeasonalNaive

FORECASTERS: dict[str, Forecaster] = {
    "last value": LastValue(),
    "seasonal naive": SeasonalNaive(),
    "mixture": LevelMixture(),
}
STEADY_RPS = 20.0
STEADY_UNTIL_S = 26 * 3600.0
LOUDER = 37.0
LEAD_S = 60.0
TAUS = (0.05, 0.3, 0.5, 0.77, 0.9, 0.95, 0.99, 0.9985)

# (gap before the span, span, rate, lead time), all irregular
ticks = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.0, 0.0, 0.0, 7.0, 40.0, 3000.0]),
        st.floats(0.2, 60.0),
        st.one_of(st.just(0.0), st.floats(0.0, 50.0), st.floats(0.0, 1e5)),
        st.sampled_from([0.0, 20.0, 60.0, 300.0, 1000.0]),
    ),
    min_size=1,
    max_size=50,
)
slow = settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module", params=list(FORECASTERS))
def forecaster(request: pytest.FixtureRequest) -> Forecaster:
    """Each forecaster of the project in turn."""
    return FORECASTERS[request.param]


@pytest.fixture(scope="module")
def steady(forecaster: Forecaster) -> Learned:
    """Its memory after 26 hours of 20 requests per second without a flaw."""
    return after_steady(forecaster, STEADY_RPS)


@pytest.fixture(scope="module")
def steady_and_louder(forecaster: Forecaster) -> Learned:
    """The same at 37 times the load."""
    return after_steady(forecaster, LOUDER * STEADY_RPS)


def after_steady(forecaster: Forecaster, rate_rps: float) -> Learned:
    minutes = int(STEADY_UNTIL_S / 60)
    return told(forecaster, forecaster.start(), [(60.0, rate_rps)] * minutes, begin_s=0.0)[0]


def told(
    forecaster: Forecaster,
    learned: Learned,
    rates: Iterable[tuple[float, float]],
    *,
    begin_s: float,
    lead_s: float = LEAD_S,
) -> tuple[Learned, float]:
    """``learned`` after (span, rate) pairs that follow one another from ``begin_s``, and when they end."""
    end_s = begin_s
    for span_s, rate_rps in rates:
        end_s += span_s
        rate = MeasuredRate(end_s=end_s, span_s=span_s, rate_rps=rate_rps, lead_s=lead_s)
        [learned] = forecaster.learn_all([learned], [rate])
    return learned, end_s


def told_with_gaps(
    forecaster: Forecaster, learned: Learned, begin_s: float, story: list[tuple[float, float, float, float]]
) -> tuple[Learned, float]:
    end_s = begin_s
    for gap_s, span_s, rate_rps, lead_s in story:
        end_s += gap_s + span_s
        rate = MeasuredRate(end_s=end_s, span_s=span_s, rate_rps=rate_rps, lead_s=lead_s)
        [learned] = forecaster.learn_all([learned], [rate])
    return learned, end_s


def ask(
    forecaster: Forecaster, learned: Learned, now_s: float, quantile: float = 0.95, lead_s: float = LEAD_S
) -> Forecast:
    answer = answered(forecaster, learned, now_s, quantile, lead_s)
    assert isinstance(answer, Forecast), answer
    return answer


def answered(
    forecaster: Forecaster, learned: Learned, now_s: float, quantile: float = 0.95, lead_s: float = LEAD_S
) -> Forecast | Unknown:
    [answer] = forecaster.forecast_all([learned], [Question(now_s=now_s, lead_s=lead_s, quantile=quantile)])
    return answer


def test_nothing_seen_is_unknown(forecaster: Forecaster) -> None:
    answer = answered(forecaster, forecaster.start(), 0.0)
    assert isinstance(answer, Unknown)
    assert answer.reason is UnknownReason.WARMING_UP


def test_it_says_how_long_it_needs_and_needs_no_longer(forecaster: Forecaster) -> None:
    learned, now_s = told(forecaster, forecaster.start(), [(5.0, 3.0)], begin_s=100.0)
    answer = answered(forecaster, learned, now_s)
    assert isinstance(answer, Unknown)
    said = re.fullmatch(r"needs (\d+) s more", answer.detail)
    assert said, answer.detail
    five_minutes = 300.0  # the coarsest grid that anything waits for
    spans = [(15.0, 3.0)] * math.ceil((int(said[1]) + five_minutes) / 15.0)
    learned, now_s = told(forecaster, learned, spans, begin_s=now_s)
    assert ask(forecaster, learned, now_s).rps >= 0


def test_the_answer_repeats_the_question(forecaster: Forecaster, steady: Learned) -> None:
    answer = ask(forecaster, steady, STEADY_UNTIL_S + 1, quantile=0.9, lead_s=200.0)
    assert (answer.at_s, answer.lead_s, answer.quantile) == (STEADY_UNTIL_S + 1, 200.0, 0.9)


@slow
@given(story=ticks)
def test_same_input_same_bytes_and_the_input_stays(
    forecaster: Forecaster, steady: Learned, story: list[tuple[float, float, float, float]]
) -> None:
    before = codec.encode(steady)
    once, _ = told_with_gaps(forecaster, steady, STEADY_UNTIL_S, story)
    again, _ = told_with_gaps(forecaster, steady, STEADY_UNTIL_S, story)
    assert codec.encode(once) == codec.encode(again)
    assert codec.encode(steady) == before


def test_a_memory_can_not_be_changed_in_place(forecaster: Forecaster, steady: Learned) -> None:
    learned, _ = told(forecaster, steady, [(15.0, 3.0)], begin_s=STEADY_UNTIL_S)
    assert [name for name, array in learned.arrays.items() if array.flags.writeable] == []


@slow
@given(story=ticks)
@pytest.mark.parametrize("seen", ["nothing", "a day"])
def test_a_stored_memory_goes_on_as_if_never_stored(
    forecaster: Forecaster, steady: Learned, seen: str, story: list[tuple[float, float, float, float]]
) -> None:
    learned = steady if seen == "a day" else forecaster.start()
    restored = codec.decode(Learned, codec.encode(learned))
    kept, now_s = told_with_gaps(forecaster, learned, STEADY_UNTIL_S, story)
    again, _ = told_with_gaps(forecaster, restored, STEADY_UNTIL_S, story)
    assert codec.encode(again) == codec.encode(kept)
    for quantile in TAUS:
        answers = [
            answered(forecaster, memory, now_s, quantile)
            for memory in (kept, codec.decode(Learned, codec.encode(kept)))
        ]
        assert answers[0] == answers[1]


@slow
@given(story=ticks)
@pytest.mark.parametrize("seen", ["nothing", "a day"])
def test_answers_are_finite_ascend_with_the_quantile_and_keep_to_the_ceiling(
    forecaster: Forecaster, steady: Learned, seen: str, story: list[tuple[float, float, float, float]]
) -> None:
    learned = steady if seen == "a day" else forecaster.start()
    learned, now_s = told_with_gaps(forecaster, learned, STEADY_UNTIL_S, story)
    answers = [answered(forecaster, learned, now_s, tau) for tau in TAUS]
    known = [answer for answer in answers if isinstance(answer, Forecast)]
    assert len(known) in (0, len(TAUS))
    largest_rps = max([STEADY_RPS, *(rate_rps for _, _, rate_rps, _ in story)])
    for answer in known:
        assert math.isfinite(answer.rps)
        assert 0 <= answer.rps <= 2 * largest_rps * (1 + 1e-6)
        assert 0 <= answer.median_rps <= 2 * largest_rps * (1 + 1e-6)
    assert [answer.rps for answer in known] == sorted(answer.rps for answer in known)


@pytest.mark.parametrize("quantile", [0.5, 0.95])
def test_a_steady_load_is_foreseen_as_it_is(forecaster: Forecaster, steady: Learned, quantile: float) -> None:
    answer = ask(forecaster, steady, STEADY_UNTIL_S, quantile)
    assert answer.rps == pytest.approx(STEADY_RPS, rel=0.02)
    assert answer.median_rps == pytest.approx(STEADY_RPS, rel=0.01)


def test_an_idle_service_is_foreseen_idle(forecaster: Forecaster) -> None:
    learned, now_s = told(forecaster, forecaster.start(), [(60.0, 0.0)] * 1500, begin_s=0.0)
    assert [ask(forecaster, learned, now_s, tau).rps for tau in TAUS] == [0.0] * len(TAUS)


@pytest.mark.parametrize("gap_s", [15.0, 100.0, 1000.0, 40_000.0])
def test_a_gap_is_not_zero_load(forecaster: Forecaster, steady: Learned, gap_s: float) -> None:
    learned, now_s = told(forecaster, steady, [(15.0, STEADY_RPS)] * 240, begin_s=STEADY_UNTIL_S + gap_s)
    for quantile in (0.3, 0.5, 0.95):
        assert ask(forecaster, learned, now_s, quantile).rps == pytest.approx(STEADY_RPS, rel=0.03)


@pytest.mark.parametrize("gap_s", [7.0, 15.0, 60.0])
def test_no_answer_sinks_while_or_after_nothing_was_measured(
    forecaster: Forecaster, steady: Learned, gap_s: float
) -> None:
    """At no moment: before the windows are full again there may be no answer, but never a low one."""
    now_s = STEADY_UNTIL_S + gap_s
    assert ask(forecaster, steady, now_s, 0.3).rps == pytest.approx(STEADY_RPS, rel=0.02)
    learned = steady
    for _ in range(120):
        learned, now_s = told(forecaster, learned, [(5.0, STEADY_RPS)], begin_s=now_s)
        answer = answered(forecaster, learned, now_s, 0.3)
        assert isinstance(answer, Unknown) or answer.rps == pytest.approx(STEADY_RPS, rel=0.02)


def test_after_two_minutes_of_silence_it_knows_nothing(forecaster: Forecaster, steady: Learned) -> None:
    answer = answered(forecaster, steady, STEADY_UNTIL_S + 121)
    assert isinstance(answer, Unknown)
    assert answer.reason is UnknownReason.STALE


@slow
@given(rates=st.lists(st.floats(10.0, 40.0), min_size=1, max_size=60), quantile=st.floats(0.3, 0.99))
def test_times_the_load_is_times_the_forecast(
    forecaster: Forecaster, steady: Learned, steady_and_louder: Learned, rates: list[float], quantile: float
) -> None:
    """Within 3 %: half a request is added to a rate before its logarithm is taken."""
    quiet, now_s = told(forecaster, steady, [(15.0, rate) for rate in rates], begin_s=STEADY_UNTIL_S)
    loud, _ = told(forecaster, steady_and_louder, [(15.0, LOUDER * rate) for rate in rates], begin_s=STEADY_UNTIL_S)
    expected = LOUDER * ask(forecaster, quiet, now_s, quantile).rps
    assert ask(forecaster, loud, now_s, quantile).rps == pytest.approx(expected, rel=0.03)


def _cut(rates: list[float], cuts_s: list[float]) -> list[tuple[float, float]]:
    """(span, rate) of a load of one rate per 15 s, cut at its own boundaries and at ``cuts_s``."""
    edges = sorted({*(15.0 * index for index in range(len(rates) + 1)), *(round(cut, 3) for cut in cuts_s)})
    return [(end - start, rates[int(start // 15.0)]) for start, end in pairwise(edges)]


@slow
@given(data=st.data(), rates=st.lists(st.floats(0.0, 100.0), min_size=8, max_size=60))
def test_what_is_learned_does_not_depend_on_the_interval(
    forecaster: Forecaster, steady: Learned, data: st.DataObject, rates: list[float]
) -> None:
    cuts_s = data.draw(st.lists(st.floats(0.0, 15.0 * len(rates) - 0.001), max_size=80))
    whole, now_s = told(forecaster, steady, _cut(rates, []), begin_s=STEADY_UNTIL_S)
    split, _ = told(forecaster, steady, _cut(rates, cuts_s), begin_s=STEADY_UNTIL_S)
    for quantile in (0.5, 0.95):
        expected = ask(forecaster, whole, now_s, quantile).rps
        assert ask(forecaster, split, now_s, quantile).rps == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_one_long_span_teaches_as_much_as_many_short_ones(forecaster: Forecaster, steady: Learned) -> None:
    minutes = [30.0, 10.0, 25.0, 25.0, 40.0, 5.0] * 5
    slow_told, now_s = told(forecaster, steady, [(60.0, rate) for rate in minutes], begin_s=STEADY_UNTIL_S)
    seconds = [(1.0, rate) for rate in minutes for _ in range(60)]
    fast_told, _ = told(forecaster, steady, seconds, begin_s=STEADY_UNTIL_S)
    expected = ask(forecaster, slow_told, now_s).rps
    assert ask(forecaster, fast_told, now_s).rps == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("end_s", [STEADY_UNTIL_S, STEADY_UNTIL_S - 10.0, STEADY_UNTIL_S - 120.0])
def test_what_was_told_before_teaches_nothing(forecaster: Forecaster, steady: Learned, end_s: float) -> None:
    [learned] = forecaster.learn_all([steady], [MeasuredRate(end_s=end_s, span_s=15.0, rate_rps=999.0, lead_s=LEAD_S)])
    assert codec.encode(learned) == codec.encode(steady)


def test_of_an_overlap_the_later_part_counts(forecaster: Forecaster, steady: Learned) -> None:
    overlapping, adjacent = forecaster.learn_all(
        [steady, steady],
        [
            MeasuredRate(end_s=STEADY_UNTIL_S + 15, span_s=span_s, rate_rps=30.0, lead_s=LEAD_S)
            for span_s in (45.0, 15.0)
        ],
    )
    assert codec.encode(overlapping) == codec.encode(adjacent)


def test_a_clock_set_back_begins_the_windows_anew(forecaster: Forecaster, steady: Learned) -> None:
    """An hour back: no answer from the wrong hour, then the forecaster works in the new time."""
    now_s = STEADY_UNTIL_S - 3600
    assert isinstance(answered(forecaster, steady, now_s, 0.5), Unknown)
    learned, now_s = told(forecaster, steady, [(60.0, 5.0)] * 1500, begin_s=now_s)
    assert ask(forecaster, learned, now_s, 0.5).rps == pytest.approx(5.0, rel=0.05)


def test_a_tick_of_clients_that_gave_up_is_netted_within_its_bin(forecaster: Forecaster, steady: Learned) -> None:
    """30 arrivals, then 10 that left: 20 in the bin."""
    story = [(5.0, 6.0), (5.0, -2.0), (5.0, 0.0)] * 40
    netted, now_s = told(forecaster, steady, story, begin_s=STEADY_UNTIL_S)
    plain, _ = told(forecaster, steady, [(15.0, 4.0 / 3.0)] * 40, begin_s=STEADY_UNTIL_S)
    assert ask(forecaster, netted, now_s).rps == pytest.approx(ask(forecaster, plain, now_s).rps, rel=1e-6)


def test_a_memory_of_another_forecaster_is_refused(forecaster: Forecaster, steady: Learned) -> None:
    foreign = Learned("another", steady.arrays)
    with pytest.raises(ValueError, match="memory of 'another'"):
        told(forecaster, foreign, [(15.0, 1.0)], begin_s=STEADY_UNTIL_S)
    with pytest.raises(ValueError, match="memory of 'another'"):
        answered(forecaster, foreign, STEADY_UNTIL_S, 0.5)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        pytest.param({"rate_rps": math.nan}, "rate_rps must lie", id="rate not a number"),
        pytest.param({"rate_rps": math.inf}, "rate_rps must lie", id="rate infinite"),
        pytest.param({"end_s": math.inf}, "end_s must be finite", id="end infinite"),
        pytest.param({"span_s": 0.0}, "span_s finite and > 0", id="no span"),
        pytest.param({"span_s": -5.0}, "span_s finite and > 0", id="span negative"),
        pytest.param({"lead_s": -1.0}, "lead_s must be finite and >= 0", id="lead negative"),
        pytest.param({"lead_s": math.nan}, "lead_s must be finite and >= 0", id="lead not a number"),
    ],
)
def test_nonsense_is_refused(forecaster: Forecaster, steady: Learned, wrong: dict[str, float], said: str) -> None:
    right = {"end_s": STEADY_UNTIL_S + 15, "span_s": 15.0, "rate_rps": 1.0, "lead_s": 60.0}
    with pytest.raises(ValueError, match=said):
        forecaster.learn_all([steady], [MeasuredRate(**(right | wrong))])


stories = st.lists(
    st.tuples(
        st.sampled_from(["fresh", "steady"]),
        st.sampled_from([1.0, 15.0, 20.0, 60.0]),
        st.sampled_from([0.0, 60.0, 75.0, 1000.0]),
        st.lists(
            st.tuples(
                st.sampled_from([0.0, 0.0, 0.0, 0.0, 7.0, 40.0, 3000.0, -200.0]),
                st.one_of(st.just(0.0), st.floats(-1.0, 1e4), st.none()),
            ),
            min_size=1,
            max_size=12,
        ),
    ),
    min_size=2,
    max_size=8,
)


@slow
@given(stories=stories, quantile=st.floats(0.01, 0.999))
def test_services_at_once_are_each_as_if_alone(
    forecaster: Forecaster,
    steady: Learned,
    stories: list[tuple[str, float, float, list[tuple[float, float | None]]]],
    quantile: float,
) -> None:
    """Fresh and old, of other intervals and lead times, dark at times, with gaps, and clocks that are set back."""
    begun = [steady if age == "steady" else forecaster.start() for age, *_ in stories]
    alone, together = list(begun), list(begun)
    now_s = [STEADY_UNTIL_S] * len(stories)
    for tick in range(max(len(story) for *_, story in stories)):
        rates: dict[int, MeasuredRate] = {}
        for place, (_, interval_s, lead_s, story) in enumerate(stories):
            gap_s, rate_rps = story[tick % len(story)]
            now_s[place] += gap_s + interval_s
            if rate_rps is not None:
                rates[place] = MeasuredRate(end_s=now_s[place], span_s=interval_s, rate_rps=rate_rps, lead_s=lead_s)
        learned = forecaster.learn_all([together[place] for place in rates], list(rates.values()))
        for place, memory in zip(rates, learned, strict=True):
            together[place] = memory
            [alone[place]] = forecaster.learn_all([alone[place]], [rates[place]])
        questions = [
            Question(now_s=now, lead_s=lead_s, quantile=quantile)
            for now, (_, _, lead_s, _) in zip(now_s, stories, strict=True)
        ]
        answers = forecaster.forecast_all(together, questions)
        for memory, question, answer in zip(alone, questions, answers, strict=True):
            [expected] = forecaster.forecast_all([memory], [question])
            assert str(answer) == str(expected)
    assert [codec.encode(memory) for memory in together] == [codec.encode(memory) for memory in alone]


def test_a_memory_keeps_nothing_of_other_services(forecaster: Forecaster, steady: Learned) -> None:
    """Its arrays are no views of arrays that hold those of others too, which would live as long as it does."""
    rate = MeasuredRate(end_s=STEADY_UNTIL_S + 60.0, span_s=60.0, rate_rps=9.0, lead_s=LEAD_S)
    for memory in forecaster.learn_all([steady] * 50, [rate] * 50):
        held = {id(owner): owner.nbytes for owner in map(_owner, memory.arrays.values())}
        assert sum(held.values()) <= 150_000


def _owner(array: NDArray[Any]) -> NDArray[Any]:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def test_none_is_no_error(forecaster: Forecaster) -> None:
    assert forecaster.learn_all([], []) == []
    assert forecaster.forecast_all([], []) == []


@pytest.mark.parametrize("quantile", [0.0, 1.0, -0.5, math.nan])
def test_a_quantile_outside_zero_to_one_is_refused(forecaster: Forecaster, steady: Learned, quantile: float) -> None:
    with pytest.raises(ValueError, match=r"quantile must lie in \(0, 1\)"):
        answered(forecaster, steady, STEADY_UNTIL_S, quantile)


def test_a_service_takes_little_memory(forecaster: Forecaster, steady: Learned) -> None:
    learned, _ = told(forecaster, steady, [(15.0, 9.0)] * 300, begin_s=STEADY_UNTIL_S, lead_s=3600.0)
    assert sum(array.nbytes for array in learned.arrays.values()) <= 150_000


@pytest.mark.parametrize("first_s", [1.0, 8.0, 14.0])
def test_the_first_moments_of_a_restart_leave_no_mark(forecaster: Forecaster, steady: Learned, first_s: float) -> None:
    """A tick of one second with a wild rate, as counters first seen give: half an hour later nothing is left of it."""
    begin_s = STEADY_UNTIL_S + 600.0
    learned, now_s = told(forecaster, steady, [(first_s, 500.0)], begin_s=begin_s + 15.0 - first_s)
    learned, now_s = told(forecaster, learned, [(15.0, STEADY_RPS)] * 130, begin_s=now_s)
    clean, _ = told(forecaster, steady, [(15.0, STEADY_RPS)] * 130, begin_s=begin_s + 15.0)
    for quantile in (0.5, 0.95, 0.99):
        expected = ask(forecaster, clean, now_s, quantile).rps
        assert ask(forecaster, learned, now_s, quantile).rps == pytest.approx(expected, rel=0.01)
    assert np.isfinite(ask(forecaster, learned, now_s).rps)
