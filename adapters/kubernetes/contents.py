"""The objects of one collection in memory, each translated once, when it comes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from adapters.kubernetes.raw_json import JsonObject, optional_text, text

T = TypeVar("T")


class ObjectKey(NamedTuple):
    """Names one object of a collection; ``namespace`` is "" for objects that belong to none."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(source: JsonObject) -> ObjectKey:
    """Of a raw object. Raises ShapeError where it has no name."""
    return ObjectKey(optional_text(source, "metadata", "namespace") or "", text(source, "metadata", "name"))


def is_older(version: str, than: str) -> bool:
    """Versions of one resource compare as whole numbers (Kubernetes API Concepts, "Resource versions")."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


class Contents(Generic[T]):
    """What one collection holds; written by one thread, read by any.

    ``translate`` is pure and gives an immutable value. Whatever it raises is that object's own fault: the object is
    then known as unreadable, with the reason, and is none of the items.
    """

    def __init__(self, translate: Callable[[JsonObject], T], *, report: Callable[[ObjectKey, str], None]) -> None:
        """``report`` is told of each object that can't be read, when the reason is new."""
        self._translate = translate
        self._report = report
        self._lock = threading.Lock()
        self._items: dict[ObjectKey, T] = {}
        self._unreadable: dict[ObjectKey, str] = {}
        self._version = 0
        self._shown: Mapping[ObjectKey, T] = MappingProxyType({})
        self._shown_version = 0

    @property
    def version(self) -> int:
        """Grows with every change of an item or of the unreadable; an update that says nothing new is no change."""
        return self._version

    def items(self) -> Mapping[ObjectKey, T]:
        """A picture that stays as it is; the same one until something changes."""
        with self._lock:
            if self._shown_version != self._version:
                self._shown = MappingProxyType(dict(self._items))
                self._shown_version = self._version
            return self._shown

    def unreadable(self) -> Mapping[ObjectKey, str]:
        """Why each unreadable object can't be read."""
        with self._lock:
            return dict(self._unreadable)

    def put(self, source: JsonObject) -> bool:
        """Add or update one object; whether that changed anything. Raises ShapeError where it has no name."""
        key = key_of(source)
        read = self._read(key, source)
        with self._lock:
            if isinstance(read, _Unreadable):
                changed = key in self._items or self._unreadable.get(key) != read.reason
                self._items.pop(key, None)
                self._unreadable[key] = read.reason
            else:
                changed = self._unreadable.pop(key, None) is not None or self._items.get(key) != read
                self._items[key] = read
            self._version += changed
        return changed

    def remove(self, source: JsonObject) -> bool:
        """Forget one object; whether it was there. Raises ShapeError where it has no name."""
        key = key_of(source)
        with self._lock:
            known = (key in self._items) or (key in self._unreadable)
            self._items.pop(key, None)
            self._unreadable.pop(key, None)
            self._version += known
        return known

    def replace(self, sources: Iterable[JsonObject]) -> bool:
        """Hold exactly these; whether that changed anything. Raises ShapeError where one has no name."""
        items: dict[ObjectKey, T] = {}
        unreadable: dict[ObjectKey, str] = {}
        for source in sources:
            key = key_of(source)
            read = self._read(key, source)
            if isinstance(read, _Unreadable):
                unreadable[key] = read.reason
            else:
                items[key] = read
        with self._lock:
            changed = items != self._items or unreadable != self._unreadable
            self._items, self._unreadable = items, unreadable
            self._version += changed
        return changed

    def _read(self, key: ObjectKey, source: JsonObject) -> T | _Unreadable:
        try:
            return self._translate(source)
        except Exception as error:  # the translator's mistakes too hold only the object that shows them
            reason = str(error) or type(error).__name__
        if self._unreadable.get(key) != reason:
            self._report(key, reason)
        return _Unreadable(reason)


class _Unreadable(NamedTuple):
    reason: str
