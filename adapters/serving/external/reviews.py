"""Questions to the API server (who holds this token? may this user?), asked once and remembered for a few seconds.

Each kind of question has threads of its own, so that a flood of invented tokens can't keep the HPA's rights from being
looked up; whoever asks the same meanwhile waits for the same answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from autoscaler.domain.caller import Access, TokenRefused, User, Verdict
from autoscaler.ports import PortError

A = TypeVar("A")


class ReviewApi(Protocol):
    """Who answers. Both calls may wait for seconds and are made in threads of ours, several at once."""

    def token_review(self, token: str, audiences: tuple[str, ...]) -> User | TokenRefused:
        """Whose token it is. With ``audiences``, one of them must be meant by it; without, the API server itself.

        Raises PortError where no answer is to be had.
        """
        ...

    def subject_access_review(self, user: User, access: Access) -> Verdict:
        """Whether the user may. Raises PortError where no answer is to be had."""
        ...


class ReviewError(Exception):
    """There is no answer; nobody is let in."""


@dataclass(frozen=True, slots=True)
class _Remembered(Generic[A]):
    answer: A
    at_s: float


class Reviews(Generic[A]):
    """Answers of one kind, by key. Belongs to one event loop."""

    def __init__(
        self,
        kind: str,
        *,
        now_s: Callable[[], float],
        keep_s: float = 10.0,
        timeout_s: float = 10.0,
        most_asked: int = 256,
        most_kept: int = 8192,
        threads: int = 8,
    ) -> None:
        """``keep_s``: how long an answer holds; ``most_asked``: questions open at once, more are not taken."""
        self._kind = kind
        self._now_s = now_s
        self._keep_s = keep_s
        self._timeout_s = timeout_s
        self._most_asked = most_asked
        self._most_kept = most_kept
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=kind)
        self._kept: dict[Hashable, _Remembered[A]] = {}
        self._asked: dict[Hashable, asyncio.Task[A]] = {}

    def remembered(self, key: Hashable, *, within_s: float | None = None) -> A | None:
        """The last answer, if it is at most so old (left out: as long as an answer holds)."""
        kept = self._kept.get(key)
        age_s = self._keep_s if within_s is None else within_s
        return kept.answer if kept is not None and 0 <= self._now_s() - kept.at_s <= age_s else None

    async def answer(self, key: Hashable, ask: Callable[[], A]) -> A:
        """The remembered answer, or a new one. Raises ReviewError."""
        known = self.remembered(key)
        return known if known is not None else await asyncio.shield(self._task(key, ask))

    def ask_again(self, key: Hashable, ask: Callable[[], A]) -> None:
        """Have a new answer fetched meanwhile; the last is kept where none comes."""
        if key not in self._asked and len(self._asked) < self._most_asked:
            self._task(key, ask)

    def close(self) -> None:
        """Take no answers any more; returns at once."""
        for task in tuple(self._asked.values()):
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _task(self, key: Hashable, ask: Callable[[], A]) -> asyncio.Task[A]:
        task = self._asked.get(key)
        if task is not None:
            return task
        if len(self._asked) >= self._most_asked:
            raise ReviewError(f"{self._kind}: {self._most_asked} questions to the API server are open already")
        task = self._asked[key] = asyncio.get_running_loop().create_task(self._ask(key, ask))
        task.add_done_callback(_seen)  # nobody may be waiting for it any more
        return task

    async def _ask(self, key: Hashable, ask: Callable[[], A]) -> A:
        begun_s = self._now_s()
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        except TimeoutError as error:
            raise ReviewError(f"{self._kind}: the API server gave no answer for {self._timeout_s:g} s") from error
        except PortError as error:
            raise ReviewError(f"{self._kind}: the API server can't be asked: {error}") from error
        finally:
            del self._asked[key]
        self._kept.pop(key, None)
        while len(self._kept) >= self._most_kept:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = _Remembered(answer, begun_s)
        return answer


def _seen(task: asyncio.Task[A]) -> None:
    if not task.cancelled():
        task.exception()
