"""Several gateways counted as one: what is told is what came in, whatever starts and ends between two looks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.engines.gateway_joining import JoinedGateways
from autoscaler.domain.reading import GatewayReading, Histogram

BOUNDS = (0.1, 1.0)


def reading(*, started_s: float, arrivals: float, at_s: float, waiting: float = 0.0) -> GatewayReading:
    """Of a gateway that answered all in time, each in a second."""
    answered = Histogram(BOUNDS, (0.0, arrivals), arrivals, arrivals)
    return GatewayReading(
        service="chat",
        at_s=at_s,
        started_s=started_s,
        arrivals=arrivals,
        finished=arrivals,
        failed=0.0,
        refused=0.0,
        waiting=waiting,
        in_flight=waiting,
        judged=arrivals,
        within_slo=arrivals,
        ttft=Histogram(BOUNDS, (0.0, 0.0), 0.0, 0.0),
        itl=Histogram(BOUNDS, (0.0, 0.0), 0.0, 0.0),
        e2e=answered,
    )


@dataclass
class Gateway:
    """One that runs; ``told``: how many of its requests were told to anybody."""

    started_s: float
    arrivals: int = 0
    told: int = 0


@dataclass
class Fleet:
    """Gateways that come and go, and what of their requests should be known."""

    now_s: float = 1000.0
    running: dict[str, Gateway] = field(default_factory=dict)
    arrived: int = 0
    lost: int = 0
    joined: JoinedGateways = field(default_factory=JoinedGateways)
    last: GatewayReading | None = None

    def start(self, name: str) -> None:
        self.end(name)
        self.running[name] = Gateway(self.now_s)

    def end(self, name: str) -> None:
        gateway = self.running.pop(name, None)
        if gateway is not None:
            self.lost += gateway.arrivals - gateway.told

    def ask(self, name: str, requests: int) -> None:
        gateway = self.running.get(name)
        if gateway is not None:
            gateway.arrivals += requests
            self.arrived += requests

    def look(self) -> GatewayReading | None:
        if not self.running:
            return None
        if self.last is None:
            self.arrived = self.lost = 0
        readings = {
            name: reading(started_s=each.started_s, arrivals=each.arrivals, at_s=self.now_s, waiting=1.0)
            for name, each in self.running.items()
        }
        for each in self.running.values():
            each.told = each.arrivals
        self.last = self.joined.join(readings, at_s=self.now_s)
        return self.last


STEPS = st.one_of(
    st.tuples(st.just("look"), st.just(""), st.just(0)),
    st.tuples(st.sampled_from(["start", "end"]), st.sampled_from("abc"), st.just(0)),
    st.tuples(st.just("ask"), st.sampled_from("abc"), st.integers(1, 50)),
)


@given(st.lists(STEPS, max_size=60))
def test_the_sum_is_what_came_in_less_what_a_gateway_took_with_it(steps: list[tuple[str, str, int]]) -> None:
    fleet = Fleet()
    for what, name, number in steps:
        fleet.now_s += 1.0
        before = fleet.last
        if what == "ask":
            fleet.ask(name, number)
        elif what == "start":
            fleet.start(name)
        elif what == "end":
            fleet.end(name)
        elif (told := fleet.look()) is not None:
            assert told.arrivals == fleet.arrived - fleet.lost
            assert told.finished == told.judged == told.within_slo == told.e2e.count == told.arrivals
            assert told.waiting == told.in_flight == len(fleet.running)
            assert told.at_s == fleet.now_s
            if before is not None:
                assert told.started_s == before.started_s
                assert told.arrivals >= before.arrivals


def test_what_was_counted_before_the_first_look_is_none_of_ours() -> None:
    joined = JoinedGateways()
    first = joined.join({"a": reading(started_s=1.0, arrivals=1e6, at_s=50.0)}, at_s=50.0)
    assert (first.arrivals, first.started_s, first.at_s) == (0.0, 50.0, 50.0)
    second = joined.join({"a": reading(started_s=1.0, arrivals=1e6 + 3, at_s=51.0)}, at_s=51.0)
    assert second.arrivals == 3.0


def test_a_gateway_that_ran_before_it_became_one_of_ours_brings_no_burst() -> None:
    joined = JoinedGateways()
    joined.join({"a": reading(started_s=1.0, arrivals=5, at_s=50.0)}, at_s=50.0)
    both = {
        "a": reading(started_s=1.0, arrivals=6, at_s=51.0),
        "b": reading(started_s=2.0, arrivals=1e6, at_s=51.0),
    }
    assert joined.join(both, at_s=51.0).arrivals == 1.0


@pytest.mark.parametrize(("away_s", "arrivals"), [(10.0, 7.0), (10_000.0, 0.0)], ids=["a while", "for good"])
def test_one_that_was_out_of_sight_goes_on_from_where_it_was(away_s: float, arrivals: float) -> None:
    joined = JoinedGateways()
    other = reading(started_s=1.0, arrivals=0, at_s=50.0)
    joined.join({"a": reading(started_s=1.0, arrivals=5, at_s=50.0), "b": other}, at_s=50.0)
    for step in (1, 2):
        at_s = 50.0 + away_s * step / 2
        joined.join({"b": replace(other, at_s=at_s)}, at_s=at_s)
    at_s = 51.0 + away_s
    back = {"a": reading(started_s=1.0, arrivals=12, at_s=at_s), "b": replace(other, at_s=at_s)}
    assert joined.join(back, at_s=at_s).arrivals == arrivals


def test_changed_thresholds_begin_a_histogram_anew_and_nothing_else() -> None:
    joined = JoinedGateways()
    joined.join({"a": reading(started_s=1.0, arrivals=5, at_s=50.0)}, at_s=50.0)
    changed = reading(started_s=1.0, arrivals=9, at_s=51.0)
    changed = replace(changed, e2e=Histogram((0.2,), (2.0,), 2.0, 0.3))
    told = joined.join({"a": changed}, at_s=51.0)
    assert (told.arrivals, told.e2e) == (4.0, changed.e2e)
