"""Never do two lead, whatever is slow, lost or paused; and soon after a death another does."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, count
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.kubernetes.election import (
    Create,
    Lease,
    Standing,
    Step,
    Terms,
    Wait,
    Write,
    accepted,
    given_up,
    lease_of,
    step,
)
from adapters.kubernetes.raw_json import JsonObject, text

ME = Terms(identity="me")


def lease(uid: str = "u1", **spec: object) -> Lease:
    """A Lease as it is seen."""
    return lease_of({"metadata": {"name": "l", "uid": uid, "resourceVersion": "1"}, "spec": spec})


OTHERS = lease(holderIdentity="other", leaseDurationSeconds=10, renewTime="t1", leaseTransitions=4)


@pytest.mark.parametrize(
    ("standing", "seen", "expected"),
    [
        pytest.param(Standing(), None, Create({"leaseDurationSeconds": 10}), id="no lease: a vacant one"),
        pytest.param(Standing(), OTHERS, Wait(2.0), id="another's, seen for the first time"),
        pytest.param(Standing(OTHERS.record, 91.5), OTHERS, Wait(1.5), id="another's, nearly run out"),
        pytest.param(Standing(OTHERS.record, 90.0), OTHERS, 5, id="another's, run out"),
        pytest.param(Standing(lease(renewTime="t0").record, 10.0), OTHERS, Wait(2.0), id="another's, renewed"),
        pytest.param(Standing(lease("u0", **OTHERS.spec).record, 10.0), OTHERS, Wait(2.0), id="deleted and made again"),
        pytest.param(Standing(), lease(leaseDurationSeconds=10), Wait(2.0), id="vacant, never held"),
        pytest.param(
            Standing(lease(leaseDurationSeconds=10).record, 90.0),
            lease(leaseDurationSeconds=10),
            1,
            id="vacant for the length of a lease",
        ),
        pytest.param(
            Standing(),
            lease(holderIdentity="", leaseDurationSeconds=1, renewTime="t1", leaseTransitions=4),
            5,
            id="given up",
        ),
        pytest.param(
            Standing(lease(holderIdentity="o", leaseDurationSeconds=30).record, 85.0),
            lease(holderIdentity="o", leaseDurationSeconds=30),
            Wait(2.0),
            id="held on longer terms than ours",
        ),
        pytest.param(
            Standing(lease(holderIdentity="o", leaseDurationSeconds=10**9).record, 40.0),
            lease(holderIdentity="o", leaseDurationSeconds=10**9),
            1,
            id="held on absurd terms",
        ),
        pytest.param(Standing(), lease(holderIdentity="me", leaseTransitions=3), 3, id="mine"),
        pytest.param(Standing(), lease(), Wait(2.0), id="empty"),
    ],
)
def test_step(standing: Standing, seen: Lease | None, expected: Step | int) -> None:
    _, wanted = step(standing, ME, seen, now_s=100.0)
    if not isinstance(expected, int):
        assert wanted == expected
        return
    assert isinstance(wanted, Write)
    assert wanted.spec["holderIdentity"] == "me"
    assert wanted.spec["leaseDurationSeconds"] == 10
    assert wanted.spec["leaseTransitions"] == expected
    assert wanted.spec["renewTime"] == "1970-01-01T00:01:40.000000Z"


def test_a_leader_leads_from_the_beginning_of_its_renewal_for_less_than_a_lease() -> None:
    standing = accepted(Standing(), ME, began_s=100.0)
    assert standing.leads(106.9)
    assert not standing.leads(107.0)


def test_a_leader_that_sees_another_one_named_leads_no_longer() -> None:
    """As by ``kubectl patch lease``: the other one leads as soon as it sees its name."""
    leading = accepted(Standing(), ME, began_s=100.0)
    assert leading.leads(101.0)
    stepped, wanted = step(leading, ME, OTHERS, now_s=101.0)
    assert not stepped.leads(101.0)
    assert isinstance(wanted, Wait)


def test_a_renewal_keeps_when_it_was_acquired() -> None:
    mine = lease(holderIdentity="me", acquireTime="t0", leaseTransitions=3, renewTime="t5", leaseDurationSeconds=10)
    _, wanted = step(Standing(), ME, mine, now_s=100.0)
    assert isinstance(wanted, Write)
    assert wanted.spec["acquireTime"] == "t0"


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        pytest.param(lambda: Terms(identity=""), "identity", id="nobody"),
        pytest.param(lambda: Terms(identity="a", renew_s=10.0), "10.0", id="believes as long as others wait"),
        pytest.param(lambda: Terms(identity="a", retry_s=7.0), "7.0", id="renews too late"),
        pytest.param(lambda: Terms(identity="a", lease_s=61), "61", id="longer than others wait"),
        pytest.param(lambda: Terms(identity="a", retry_s=0.0), "0.0", id="without a pause"),
    ],
)
def test_terms_that_cannot_be_safe_are_refused(terms: Callable[[], Terms], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        terms()


# A world of contenders, each with a clock of its own


class RejectedError(Exception):
    """Written at a version that is no longer the present one."""


@dataclass
class Store:
    """One Lease in an API server."""

    versions: Iterator[int] = field(default_factory=lambda: count(1))
    source: JsonObject | None = None

    def read(self) -> Lease | None:
        return None if self.source is None else lease_of(self.source)

    def create(self, spec: JsonObject) -> None:
        if self.source is not None:
            raise RejectedError
        version = str(next(self.versions))
        self.source = {"metadata": {"uid": f"uid-{version}", "resourceVersion": version}, "spec": spec}

    def write(self, seen: Lease, spec: JsonObject) -> None:
        if self.source is None or text(self.source, "metadata", "resourceVersion") != seen.metadata["resourceVersion"]:
            raise RejectedError
        metadata = {"uid": seen.metadata["uid"], "resourceVersion": str(next(self.versions))}
        self.source = {"metadata": metadata, "spec": spec}


@dataclass
class World:
    """Real time, which no contender sees; ``beliefs``: who believed to lead from when until when."""

    store: Store = field(default_factory=Store)
    at_s: float = 0.0
    beliefs: list[tuple[str, float, float]] = field(default_factory=list)

    def run(self, processes: list[Iterator[float]], *, until_s: float) -> None:
        """Advance the processes, each of which yields how long it takes to its next step."""
        order = count()
        due = [(0.0, next(order), process) for process in processes]
        heapq.heapify(due)
        while due and due[0][0] < until_s:
            self.at_s, _, process = heapq.heappop(due)
            taken_s = next(process, None)
            if taken_s is not None:
                heapq.heappush(due, (self.at_s + taken_s, next(order), process))

    def contend(
        self, name: str, *, offset_s: float, late: Callable[[], float], lost: Callable[[], bool], dies_s: float
    ) -> Iterator[float]:
        """One process: look, decide, write, each with its own delay; answers get lost; it gives up or dies."""
        terms, standing = Terms(identity=name), Standing()
        while True:
            yield late()
            seen = self.store.read()
            yield late()
            if self.at_s >= dies_s:
                return
            if lost():
                yield terms.retry_s
                continue
            standing, wanted = step(standing, terms, seen, now_s=self.at_s + offset_s)
            if isinstance(wanted, Wait):
                yield wanted.pause_s
                continue
            yield late()
            began_s = self.at_s + offset_s
            yield late()
            try:
                if seen is None:
                    self.store.create(wanted.spec)
                    continue
                self.store.write(seen, wanted.spec)
            except RejectedError:
                continue
            yield late()
            if not lost():
                standing = accepted(standing, terms, began_s=began_s)
                self.beliefs.append((name, self.at_s, standing.until_s - offset_s))
            yield terms.retry_s

    def give_up(self, name: str) -> None:
        """What ``name`` does when it ends properly: it stops to believe, then says so."""
        self.beliefs = [
            (each, start, min(end, self.at_s) if each == name else end) for each, start, end in self.beliefs
        ]
        seen = self.store.read()
        if seen is not None and seen.holder == name:
            self.store.write(seen, given_up(seen, now_s=self.at_s))

    def disturb(self, pause_s: Callable[[], float]) -> Iterator[float]:
        """Somebody deletes the Lease now and then."""
        while True:
            yield pause_s()
            self.store.source = None

    def two_led(self) -> list[object]:
        """Beliefs of two contenders that overlap."""
        held = [(name, start, end) for name, start, end in self.beliefs if end > start]
        return [(a, b) for a, b in combinations(held, 2) if a[0] != b[0] and a[1] < b[2] and b[1] < a[2]]


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    offsets_s=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=3),
    hang=st.sampled_from((0.02, 0.1, 0.3)),
    deletions_s=st.sampled_from(((), (60.0, 200.0), (0.5, 3.0, 9.0, 30.0))),
)
def test_never_do_two_lead(seed: int, offsets_s: list[float], hang: float, deletions_s: tuple[float, ...]) -> None:
    chances = Random(seed)

    def late() -> float:
        """Mostly short; with the chance ``hang`` a network or a machine that stands still."""
        return chances.uniform(1.0, 16.0) if chances.random() < hang else chances.choice((0.0, 0.01, 0.1))

    world = World()
    processes = [
        world.contend(
            f"c{number}",
            offset_s=offset_s,
            late=late,
            lost=lambda: chances.random() < hang,
            dies_s=chances.choice((60.0, 200.0, 1e9)),
        )
        for number, offset_s in enumerate(offsets_s)
    ]
    if deletions_s:
        processes.append(world.disturb(lambda: chances.choice(deletions_s)))
    world.run(processes, until_s=400.0)
    assert world.two_led() == []


@settings(max_examples=100, deadline=None)
@given(chances=st.randoms(use_true_random=False), dies_s=st.floats(15.0, 40.0), contenders=st.integers(2, 3))
def test_within_15_s_of_a_death_another_leads(chances: Random, dies_s: float, contenders: int) -> None:
    world = World()
    quick: Callable[[], float] = lambda: chances.choice((0.0, 0.01, 0.2))  # noqa: E731

    def contend(name: str, dies_s: float) -> Iterator[float]:
        return world.contend(name, offset_s=0.0, late=quick, lost=lambda: False, dies_s=dies_s)

    def later(name: str) -> Iterator[float]:
        yield 12.0
        yield from contend(name, 1e9)

    others = [later(f"c{number}") for number in range(1, contenders)]
    world.run([contend("first", dies_s), *others], until_s=dies_s + 20.0)
    successors = [start for name, start, _ in world.beliefs if name != "first"]
    assert successors
    assert dies_s - 3.0 < min(successors) < dies_s + 15.0
    assert world.two_led() == []


def test_the_lease_of_one_that_ends_properly_is_taken_at_once() -> None:
    world = World()

    def contend(name: str, dies_s: float) -> Iterator[float]:
        return world.contend(name, offset_s=0.0, late=lambda: 0.01, lost=lambda: False, dies_s=dies_s)

    def ending() -> Iterator[float]:
        yield from contend("first", 30.0)
        world.give_up("first")

    def second() -> Iterator[float]:
        yield 12.0
        yield from contend("second", 1e9)

    world.run([ending(), second()], until_s=40.0)
    ended_s = max(end for name, _, end in world.beliefs if name == "first")
    begun_s = min(start for name, start, _ in world.beliefs if name == "second")
    assert 0.0 <= begun_s - ended_s < ME.retry_s + 0.1
