"""The waiting room: order, bounds, and that nobody is left behind. The loop's clock stands still unless it is moved."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.local.gateway_waiting import (
    DemandSignal,
    MemoryBudget,
    OutOfMemoryBudgetError,
    Place,
    RoomClosedError,
    RoomFullError,
    WaitedTooLongError,
    WaitingRoom,
)

pytestmark = pytest.mark.anyio


def place(number: int, *, in_s: float = 1e6) -> Place:
    return Place(number=number, until_s=asyncio.get_running_loop().time() + in_s)


async def settle() -> None:
    """Let all that can go on go on."""
    for _ in range(10):
        await asyncio.sleep(0)


@given(numbers=st.lists(st.integers(min_value=0), unique=True), gone=st.sets(st.integers(min_value=0, max_value=20)))
def test_all_who_stay_are_let_go_in_order_of_their_numbers(numbers: list[int], gone: set[int]) -> None:
    async def scenario() -> list[int]:
        room = WaitingRoom(on_first=lambda: None)
        let_go: list[int] = []

        async def wait(number: int) -> None:
            await room.wait(place(number), max_waiting=len(numbers))
            let_go.append(number)

        tasks = [asyncio.create_task(wait(number)) for number in numbers]
        await settle()
        assert len(room) == len(numbers)
        for index in gone:
            if index < len(tasks):
                tasks[index].cancel()
        await settle()
        room.release()
        assert len(room) == 0
        await asyncio.gather(*tasks, return_exceptions=True)
        return let_go

    stayed = [number for index, number in enumerate(numbers) if index not in gone]
    assert asyncio.run(scenario()) == sorted(stayed)


async def test_no_more_than_may_wait() -> None:
    room = WaitingRoom(on_first=lambda: None)
    waiting = [asyncio.create_task(room.wait(place(number), max_waiting=2)) for number in range(2)]
    await settle()
    with pytest.raises(RoomFullError):
        await room.wait(place(2), max_waiting=2)
    waiting[0].cancel()
    await settle()
    third = asyncio.create_task(room.wait(place(3), max_waiting=2))
    await settle()
    room.release()
    await asyncio.gather(waiting[1], third)


async def test_who_was_admitted_once_may_come_back_to_a_full_room() -> None:
    room = WaitingRoom(on_first=lambda: None)
    first = place(0)
    waiting = asyncio.create_task(room.wait(first, max_waiting=1))
    await settle()
    room.release()
    await waiting
    other = asyncio.create_task(room.wait(place(1), max_waiting=1))
    await settle()
    again = asyncio.create_task(room.wait(first, max_waiting=1))
    await settle()
    assert len(room) == 2
    room.release()
    await asyncio.gather(again, other)


async def test_who_has_waited_too_long_is_told_and_gone() -> None:
    room = WaitingRoom(on_first=lambda: None)
    with pytest.raises(WaitedTooLongError):
        await room.wait(place(0, in_s=0.0), max_waiting=1)
    assert len(room) == 0


async def test_a_closed_room_turns_all_away() -> None:
    room = WaitingRoom(on_first=lambda: None)
    waiting = asyncio.create_task(room.wait(place(0), max_waiting=1))
    await settle()
    room.close()
    with pytest.raises(RoomClosedError):
        await waiting
    with pytest.raises(RoomClosedError):
        await room.wait(place(1), max_waiting=1)


async def test_demand_is_told_when_the_first_comes_into_an_empty_room() -> None:
    signal = DemandSignal()
    room = WaitingRoom(on_first=signal.raised)
    asking = asyncio.create_task(signal.wait(timeout_s=1e6))
    await settle()
    assert not asking.done()
    waiting = [asyncio.create_task(room.wait(place(number), max_waiting=9)) for number in range(3)]
    await asking
    assert signal.rise == 1
    room.release()
    await asyncio.gather(*waiting)
    waiting = [asyncio.create_task(room.wait(place(9), max_waiting=9))]
    await settle()
    assert signal.rise == 2
    room.release()
    await asyncio.gather(*waiting)


@given(st.lists(st.integers(min_value=0, max_value=100)))
def test_the_budget_is_never_overdrawn(sizes: list[int]) -> None:
    budget = MemoryBudget(limit_bytes=200)
    taken: list[int] = []
    for size in sizes:
        if sum(taken) + size > 200:
            with pytest.raises(OutOfMemoryBudgetError):
                budget.take(size)
            if taken:
                budget.give_back(taken.pop(0))
        else:
            budget.take(size)
            taken.append(size)
        assert budget.used_bytes == sum(taken)
