"""The pods that go are those with the least to lose, and no more calls are made than that takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.kubernetes.deletion_cost import MARK, Candidate, Standing, leaving, marks


def pod(
    name: str,
    in_flight: float | None = 0.0,
    *,
    standing: Standing = Standing.READY,
    age: int = 0,
    cost: int | None = None,
) -> Candidate:
    return Candidate(
        name=name, uid=f"uid-{name}", standing=standing, created_s=1000.0 - age, in_flight=in_flight, cost=cost
    )


@pytest.mark.parametrize(
    ("pods", "count", "expected"),
    [
        pytest.param([pod("a", 9), pod("b", 1), pod("c", 4)], 2, ["b", "c"], id="fewest in flight"),
        pytest.param([pod("a", age=90), pod("b", age=10)], 1, ["b"], id="the youngest of equals"),
        pytest.param([pod("a"), pod("b", standing=Standing.STARTING)], 1, ["b"], id="starting before idle"),
        pytest.param(
            [pod("a", standing=Standing.STARTING), pod("b", standing=Standing.UNSCHEDULABLE, age=99)],
            1,
            ["b"],
            id="without a node before starting",
        ),
        pytest.param([pod("a", None), pod("b", 50)], 1, ["b"], id="what is not known may be busy"),
        pytest.param([pod("a"), pod("b")], 0, [], id="none"),
        pytest.param([pod("a"), pod("b")], -2, [], id="fewer pods than replicas"),
        pytest.param([pod("a"), pod("b")], 5, ["b", "a"], id="all"),
    ],
)
def test_who_goes(pods: list[Candidate], count: int, expected: list[str]) -> None:
    assert sorted(each.name for each in leaving(pods, count=count)) == sorted(expected)


@pytest.mark.parametrize(
    ("pods", "count", "expected"),
    [
        pytest.param([pod("a", 9), pod("b", 1)], 1, {"b": MARK}, id="marked"),
        pytest.param([pod("a", 9), pod("b", 1, cost=MARK)], 1, {}, id="marked already"),
        pytest.param([pod("a", 9, cost=MARK), pod("b", 1)], 1, {"a": None, "b": MARK}, id="another one now"),
        pytest.param([pod("a", 9, cost=MARK), pod("b", 1)], 0, {"a": None}, id="nobody any more"),
        pytest.param([pod("a", 9), pod("b", standing=Standing.UNSCHEDULABLE)], 1, {}, id="goes first anyway"),
        pytest.param([pod("a", 9, cost=-5), pod("b", 1, cost=7)], 1, {"b": MARK}, id="a user's own costs"),
    ],
)
def test_marks(pods: list[Candidate], count: int, expected: dict[str, int | None]) -> None:
    assert marks(pods, count=count) == expected


PODS = st.lists(
    st.builds(
        Candidate,
        name=st.uuids().map(str),
        uid=st.just("u"),
        standing=st.sampled_from(Standing),
        created_s=st.floats(0, 1e6),
        in_flight=st.none() | st.floats(0, 100),
        cost=st.none() | st.just(MARK) | st.integers(-100, 100),
    ),
    max_size=12,
    unique_by=lambda each: each.name,
)


def as_a_replica_set_picks(pods: list[Candidate], costs: dict[str, int], count: int) -> set[str]:
    """ActivePodsWithRanks of pkg/controller/controller_utils.go, in the parts that differ here."""
    return {each.name for each in sorted(pods, key=lambda each: (each.standing, costs[each.name]))[:count]}


@given(PODS, st.integers(0, 12))
def test_a_replica_set_takes_the_ones_meant(pods: list[Candidate], count: int) -> None:
    meant = {each.name for each in leaving(pods, count=count)}
    changes = marks(pods, count=count)
    costs = {each.name: changes.get(each.name, each.cost) or 0 for each in pods}
    taken = as_a_replica_set_picks(pods, costs, count)
    standings = {each.name: each.standing for each in pods}
    # Pods without a node are equal to one another: whichever of them goes, nobody loses anything.
    assert {name for name in taken ^ meant if standings[name] is not Standing.UNSCHEDULABLE} == set()


@given(PODS, st.integers(0, 12))
def test_marking_twice_changes_nothing(pods: list[Candidate], count: int) -> None:
    changes = marks(pods, count=count)
    after = [
        Candidate(
            name=each.name,
            uid=each.uid,
            standing=each.standing,
            created_s=each.created_s,
            in_flight=each.in_flight,
            cost=changes.get(each.name, each.cost),
        )
        for each in pods
    ]
    assert len(changes) <= count + sum(each.cost == MARK for each in pods)
    assert marks(after, count=count) == {}
