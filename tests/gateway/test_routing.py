"""The routing table: promises over random histories, and the order of ties."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, MultipleResults, RuleBasedStateMachine, consumes, invariant, multiple, rule

from adapters.local.gateway_routing import RoutingTable
from adapters.local.routes import Endpoint
from autoscaler.domain.service import ServiceId

SERVICES = tuple(ServiceId(name) for name in ("chat", "embed"))

endpoints = st.builds(
    Endpoint,
    service=st.sampled_from(SERVICES),
    replica=st.sampled_from([f"replica-{number}" for number in range(4)]),
    url=st.sampled_from(["http://127.0.0.1:1001", "http://127.0.0.1:1002"]),
    accepting=st.booleans(),
)
fleets = st.lists(endpoints, unique_by=lambda endpoint: endpoint.replica, max_size=4)


class AnyHistory(RuleBasedStateMachine):
    """A plain account of what was begun, ended and refused, beside the table."""

    begun: Bundle[Endpoint] = Bundle("begun")

    def __init__(self) -> None:
        super().__init__()
        self.table = RoutingTable()
        self.fleet: dict[str, Endpoint] = {}
        self.open: Counter[str] = Counter()
        self.refusing: set[tuple[str, str]] = set()

    def takers(self, service: ServiceId) -> list[Endpoint]:
        return [
            endpoint
            for endpoint in self.fleet.values()
            if endpoint.service == service
            and endpoint.accepting
            and (endpoint.replica, endpoint.url) not in self.refusing
        ]

    @rule(fleet=fleets)
    def put(self, fleet: list[Endpoint]) -> None:
        self.table.put(fleet)
        self.fleet = {endpoint.replica: endpoint for endpoint in fleet}
        self.refusing &= {(endpoint.replica, endpoint.url) for endpoint in fleet}

    @rule(target=begun, service=st.sampled_from(SERVICES))
    def begin(self, service: ServiceId) -> Endpoint | MultipleResults[Endpoint]:
        takers = self.takers(service)
        assert self.table.can_begin(service) is bool(takers)
        chosen = self.table.begin(service)
        if chosen is None:
            assert not takers
            return multiple()
        assert chosen in takers
        assert self.open[chosen.replica] == min(self.open[endpoint.replica] for endpoint in takers)
        self.open[chosen.replica] += 1
        return chosen

    @rule(endpoint=consumes(begun))
    def end(self, endpoint: Endpoint) -> None:
        self.table.end(endpoint)
        self.open[endpoint.replica] -= 1

    @rule(endpoint=consumes(begun))
    def refuse(self, endpoint: Endpoint) -> None:
        current = self.fleet.get(endpoint.replica)
        key = (endpoint.replica, endpoint.url)
        is_news = current is not None and current.url == endpoint.url and key not in self.refusing
        assert self.table.refused(endpoint) is is_news
        if is_news:
            self.refusing.add(key)
        assert self.table.is_refusing(endpoint) is (key in self.refusing)
        self.table.end(endpoint)
        self.open[endpoint.replica] -= 1

    @rule(endpoint=endpoints)
    def reach(self, endpoint: Endpoint) -> None:
        self.table.reachable(endpoint)
        self.refusing.discard((endpoint.replica, endpoint.url))

    @invariant()
    def counts_are_exact(self) -> None:
        names = set(self.fleet) | {name for name, count in self.open.items() if count}
        assert self.table.in_flight() == {name: self.open[name] for name in sorted(names)}


TestAnyHistory = AnyHistory.TestCase


def replica(name: str) -> Endpoint:
    return Endpoint(service=SERVICES[0], replica=name, url=f"http://{name}", accepting=True)


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a")], ids=["sorted", "reversed"])
def test_ties_go_by_the_last_turn_and_then_by_name(order: tuple[str, ...]) -> None:
    table = RoutingTable()
    table.put([replica(name) for name in order])
    turns = []
    for _ in range(7):
        chosen = table.begin(SERVICES[0])
        assert chosen is not None
        turns.append(chosen.replica)
        table.end(chosen)
    assert "".join(turns) == "abcabca"


def test_a_new_replica_gets_its_share_and_no_more() -> None:
    table = RoutingTable()
    table.put([replica("a")])
    for _ in range(10):
        table.begin(SERVICES[0])
    table.put([replica("a"), replica("b")])
    for _ in range(10):
        table.begin(SERVICES[0])
    assert table.in_flight() == {"a": 10, "b": 10}


def test_a_name_listed_twice_changes_nothing() -> None:
    table = RoutingTable()
    table.put([replica("a")])
    with pytest.raises(ValueError, match="'b' is listed twice"):
        table.put([replica("b"), replica("b")])
    assert table.in_flight() == {"a": 0}
