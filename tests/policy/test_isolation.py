"""A service whose memory or input is broken holds, and nobody else notices: stages over all services at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.compose import build_models
from autoscaler.domain.learned import Learned
from autoscaler.domain.plan import Reason
from autoscaler.domain.service import ServiceId
from autoscaler.domain.state import ControllerState, ServiceState
from autoscaler.policy.isolating import one_by_one, together
from tests.policy.world import World, service

NAMES = ("a", "b", "c", "d", "e")


def running(ticks: int = 4) -> World:
    world = World(services=tuple(service(name) for name in NAMES), models=build_models())
    for name in NAMES:
        world.start(1, name=ServiceId(name))
    world.ticks(ticks, {ServiceId(name): 5 for name in NAMES})
    return world


def foreign_memory(state: ServiceState) -> ServiceState:
    return replace(state, forecaster=Learned("another", state.forecaster.arrays))


def torn_memory(state: ServiceState) -> ServiceState:
    arrays = {name: array for name, array in state.forecaster.arrays.items() if name != "losses"}
    return replace(state, forecaster=Learned(state.forecaster.model, arrays))


def bad_theta(state: ServiceState) -> ServiceState:
    return replace(state, theta="bad")  # type: ignore[arg-type]


@pytest.mark.parametrize("harm", [foreign_memory, torn_memory, bad_theta])
@pytest.mark.parametrize("harmed", [("c",), ("a", "e"), NAMES], ids=["one", "first and last", "all"])
def test_a_broken_memory_holds_only_its_service(
    harm: Callable[[ServiceState], ServiceState], harmed: Sequence[str]
) -> None:
    healthy, broken = running(), running()
    before = broken.state.services
    broken.state = ControllerState(
        services={each: harm(state) if each in harmed else state for each, state in before.items()}
    )
    memories, asked = broken.state.services, dict(broken.targets)
    for world in (healthy, broken):
        world.now_s += 15
        for name in NAMES:
            world.offer(450, name=ServiceId(name))
    expected = {each.service: each for each in healthy.decide().services}
    for decision in broken.decide().services:
        if decision.service in harmed:
            assert decision.binding is Reason.SERVICE_ERROR
            assert decision.desired == asked[decision.service, "default"]
            assert broken.state.services[decision.service] is memories[decision.service]
        else:
            assert decision == expected[decision.service]


@given(items=st.lists(st.integers(0, 9), max_size=40), at_fault=st.sets(st.integers(0, 9)))
def test_together_finds_those_at_fault(items: list[int], at_fault: set[int]) -> None:
    def double(item: int) -> int:
        if item in at_fault:
            raise ValueError(item)
        return 2 * item

    named = {ServiceId(f"{place}"): item for place, item in enumerate(items)}
    faults: dict[ServiceId, Exception] = {}
    done = together(lambda some: [double(item) for item in some], named, faults)
    alone: dict[ServiceId, Exception] = {}
    assert done == one_by_one(double, named, alone)
    assert list(done) == [name for name, item in named.items() if item not in at_fault]
    assert {name: str(error) for name, error in faults.items()} == {name: str(error) for name, error in alone.items()}
