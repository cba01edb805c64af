"""A loop in a thread: begun work, and an end that leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError

import pytest

from adapters.loop_thread import LoopThread


async def forever(cancelled: threading.Event, begun: threading.Event) -> None:
    try:
        begun.set()
        await asyncio.Event().wait()
    finally:
        cancelled.set()


def test_work_runs_in_its_thread_and_its_result_comes_back() -> None:
    async def where() -> str:
        return threading.current_thread().name

    loop = LoopThread("worker")
    assert loop.begin(where()).result(timeout=10.0) == "worker"
    loop.close()


def test_what_still_runs_is_cancelled_before_the_last_is_done() -> None:
    begun, cancelled = threading.Event(), threading.Event()
    order: list[bool] = []

    async def last() -> None:
        order.append(cancelled.is_set())

    loop = LoopThread("worker")
    work = loop.begin(forever(cancelled, begun))
    assert begun.wait(10.0)
    loop.close(last)
    assert order == [True]
    with pytest.raises(CancelledError):
        work.result(timeout=10.0)


def test_closing_again_changes_nothing() -> None:
    done: list[int] = []

    async def last() -> None:
        done.append(1)

    loop = LoopThread("worker")
    loop.close(last)
    loop.close(last)
    assert done == [1]
    assert "worker" not in {thread.name for thread in threading.enumerate()}


def test_a_failure_of_the_last_is_told() -> None:
    async def last() -> None:
        raise ValueError("it broke")

    loop = LoopThread("worker")
    with pytest.raises(ValueError, match="it broke"):
        loop.close(last)
    loop.close()
