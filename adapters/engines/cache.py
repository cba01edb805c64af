"""A cache that can't grow without end."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """A mapping that forgets its oldest entries once their sizes add up to more than ``limit_bytes``.

    ``largest_bytes``: the size of the largest entry that is kept.
    """

    def __init__(self, *, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.largest_bytes = limit_bytes // 4
        self.held_bytes = 0
        self._entries: dict[K, tuple[V, int]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """The value kept under ``key``, or None."""
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def put(self, key: K, value: V, *, size_bytes: int) -> None:
        """Keep ``value``; one above ``largest_bytes`` isn't kept, so that it can't push all others out."""
        if size_bytes > self.largest_bytes:
            return
        old = self._entries.pop(key, None)
        if old is not None:
            self.held_bytes -= old[1]
        self._entries[key] = (value, size_bytes)
        self.held_bytes += size_bytes
        while self.held_bytes > self.limit_bytes:
            _, forgotten_bytes = self._entries.pop(next(iter(self._entries)))
            self.held_bytes -= forgotten_bytes
