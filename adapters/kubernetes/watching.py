"""Collections kept current: listed once, then watched, in a thread each.

Protocol: Kubernetes documentation, "Kubernetes API Concepts" (efficient detection of changes, watch bookmarks,
410 Gone, retrieving large results in chunks).
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

from adapters.kubernetes.api_errors import BusyError, GoneError, NotFoundError
from adapters.kubernetes.connection import Collection, KubernetesApi
from adapters.kubernetes.contents import Contents, ObjectKey, is_older
from adapters.kubernetes.raw_json import JsonObject, inner, objects, optional_text, optional_whole, text
from adapters.kubernetes.streaming import LineStream
from adapters.kubernetes.waiting import Backoff, EventWaiter, Waiter
from autoscaler.ports import InvalidAnswerError, PortError, UnavailableError

T = TypeVar("T")
_SHORT_S = 1.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPace:
    """How a collection is followed.

    The server ends a watch after ``watch_s``: so one that answers is heard at least that often, and one that is silent
    for ``silence_s`` is given up.
    """

    page: int = 500
    watch_s: int = 30
    silence_s: float = 40.0
    list_timeout_s: float = 30.0
    first_pause_s: float = 0.5
    most_pause_s: float = 10.0
    between_watches_s: float = 0.1
    absent_pause_s: float = 60.0
    absent_after: int = 3


class Watched(Generic[T]):
    """The objects of one collection, as the API server last told them; read without a call.

    An ``optional`` collection whose kind the server doesn't know (its CRD isn't installed) is empty and ``absent``.
    """

    def __init__(
        self,
        api: KubernetesApi,
        collection: Collection,
        translate: Callable[[JsonObject], T],
        *,
        now_s: Callable[[], float],
        label_selector: str = "",
        field_selector: str = "",
        optional: bool = False,
        on_unreadable: Callable[[ObjectKey, str], None] = lambda key, reason: None,
        pace: WatchPace | None = None,
        waiter: Waiter | None = None,
    ) -> None:
        """``translate``: pure, gives an immutable value with equality; what it raises holds only that object. Listed
        objects come without ``apiVersion`` and ``kind``.

        ``on_unreadable`` is told of such objects, in the thread of the watch.
        """
        self._api = api
        self._path = collection.path
        self._contents = Contents(translate, report=on_unreadable)
        self._now_s = now_s
        self._selectors = {
            key: value for key, value in (("labelSelector", label_selector), ("fieldSelector", field_selector)) if value
        }
        self._optional = optional
        self._pace = pace or WatchPace()
        self._waiter = waiter or EventWaiter()
        self._backoff = Backoff(first_s=self._pace.first_pause_s, most_s=self._pace.most_pause_s)
        self._lock = threading.Lock()
        self._subscribers: list[Callable[[], None]] = []
        self._stream: LineStream | None = None
        self._closed = False
        self._synced = threading.Event()
        self._absent = False
        self._not_found = 0
        self._failure: str | None = None
        self._heard_s: float | None = None
        self._resume_from = ""
        self._thread = threading.Thread(target=self._run, name=f"watch {self._path}", daemon=True)

    def start(self) -> None:
        """Begin to follow the collection."""
        self._thread.start()

    def close(self) -> None:
        """End it; a call under way is given a few seconds to end."""
        self._waiter.stop()
        with self._lock:
            self._closed = True
            stream = self._stream
        if stream is not None:
            stream.close()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)

    def items(self) -> Mapping[ObjectKey, T]:
        """A picture that stays as it is; cheap, copied only after a change. Raises UnavailableError before ``synced``.

        It may be old: see ``heard_s``.
        """
        if not self.synced:
            raise UnavailableError(f"{self._path} is not known yet{f': {self._failure}' if self._failure else ''}")
        return self._contents.items()

    def unreadable(self) -> Mapping[ObjectKey, str]:
        """Objects that could not be translated, with the reason."""
        return self._contents.unreadable()

    @property
    def version(self) -> int:
        """Grows with every change of what ``items`` or ``unreadable`` give."""
        return self._contents.version

    @property
    def synced(self) -> bool:
        """Whether the whole collection was known once."""
        return self._synced.is_set()

    def wait_synced(self, timeout_s: float) -> bool:
        """Wait for it; whether it is."""
        return self._synced.wait(timeout_s)

    @property
    def absent(self) -> bool:
        """Whether the server doesn't know the kind."""
        return self._absent

    @property
    def heard_s(self) -> float | None:
        """When the server last said anything of this collection: a page, an event, a bookmark. None: never."""
        return self._heard_s

    @property
    def silent_s(self) -> float:
        """For how long it has said nothing; infinite: it never did."""
        return inf if self._heard_s is None else self._now_s() - self._heard_s

    @property
    def failure(self) -> str | None:
        """What the last attempt failed of; None while all is well."""
        return self._failure

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call ``changed`` after every change of items, ``synced``, ``absent`` or ``failure``; returns what ends it.

        It runs in the thread of the watch and should only wake somebody.
        """
        with self._lock:
            self._subscribers.append(changed)

        def end() -> None:
            with self._lock:
                if changed in self._subscribers:
                    self._subscribers.remove(changed)

        return end

    def _run(self) -> None:
        while not self._waiter.wait(self._round()):
            pass

    def _round(self) -> float:
        """List if need be, then watch until it ends; how long to pause before the next round."""
        try:
            if not self._resume_from:
                self._list()
            if self._watch():
                self._backoff.reset()
                return self._pace.between_watches_s
            return self._backoff.next_s()
        except NotFoundError as error:
            self._resume_from = ""
            return self._kind_not_found(error)
        except (GoneError, InvalidAnswerError) as error:
            self._resume_from = ""
            return self._failed(error)
        except PortError as error:
            return self._failed(error)
        except Exception as error:  # a thread that died would leave its collection to age unseen
            _log.exception("following %s failed", self._path)
            self._resume_from = ""
            return self._failed(UnavailableError(f"{self._path}: {error!r}"))

    def _failed(self, error: PortError) -> float:
        if self._closed:
            return 0.0
        pause_s = self._backoff.next_s()
        if isinstance(error, BusyError):
            pause_s = max(pause_s, error.retry_after_s)
        self._say(failure=str(error))
        return pause_s

    def _kind_not_found(self, error: NotFoundError) -> float:
        """One answer is not believed where there were objects: a server that starts may say so for a moment."""
        self._not_found += 1
        if not self._optional or (self.synced and not self._absent and self._not_found < self._pace.absent_after):
            return self._failed(error)
        self._heard_s = self._now_s()
        cleared = self._contents.replace(())
        news = cleared or not self._absent or not self.synced
        self._absent = True
        self._synced.set()
        self._say(failure=None, changed=news)
        return self._pace.absent_pause_s

    def _list(self) -> None:
        """Replace the contents by what the server holds now, page by page."""
        try:
            changed = self._contents.replace(self._listed(limit=self._pace.page))
        except GoneError:
            # The later pages were compacted away; in one piece they can't be.
            changed = self._contents.replace(self._listed(limit=None))
        news = changed or self._absent or not self.synced
        self._absent, self._not_found = False, 0
        self._synced.set()
        self._say(failure=None, changed=news)

    def _listed(self, *, limit: int | None) -> Iterator[JsonObject]:
        """All objects; one page at a time is held as JSON. Sets from where to watch on."""
        query = dict(self._selectors)
        if limit is not None:
            query["limit"] = str(limit)
        while True:
            page = self._api.get(self._path, query, timeout_s=self._pace.list_timeout_s)
            self._heard_s = self._now_s()
            yield from objects(page, "items")
            more = optional_text(page, "metadata", "continue")
            if not more:
                self._resume_from = text(page, "metadata", "resourceVersion")
                return
            query["continue"] = more

    def _watch(self) -> bool:
        """Follow events until the server ends the watch; whether it was worth while.

        One that ends at once and empty isn't: without a growing pause it would be a busy loop.
        """
        query = {
            **self._selectors,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._resume_from,
            "timeoutSeconds": str(self._pace.watch_s),
        }
        heard = False
        with self._api.stream(self._path, query, silence_s=self._pace.silence_s) as stream:
            with self._lock:
                if self._closed:
                    return False
                self._stream = stream
            began_s = self._heard_s = self._now_s()
            self._say(failure=None)
            try:
                for line in stream:
                    self._take(line)
                    heard = True
            finally:
                with self._lock:
                    self._stream = None
            self._heard_s = self._now_s()
        return heard or self._heard_s - began_s >= _SHORT_S

    def _take(self, line: bytes) -> None:
        """One event of a watch. Raises GoneError, InvalidAnswerError (list anew) or UnavailableError."""
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InvalidAnswerError(f"{self._path}: an event that is no JSON: {line[:80]!r}") from error
        if not isinstance(event, dict):
            raise InvalidAnswerError(f"{self._path}: an event that is no object: {line[:80]!r}")
        kind, source = text(event, "type"), inner(event, "object")
        if kind == "ERROR":
            raise self._told(source)
        version = text(source, "metadata", "resourceVersion")
        self._heard_s = self._now_s()
        changed = False
        if kind in ("ADDED", "MODIFIED"):
            changed = self._contents.put(source)
        elif kind == "DELETED":
            changed = self._contents.remove(source)
        elif kind != "BOOKMARK":
            raise InvalidAnswerError(f"{self._path}: an event of unknown type {kind!r}")
        elif is_older(version, self._resume_from):
            raise GoneError(f"{self._path}: the server went back to version {version} from {self._resume_from}")
        self._resume_from = version
        if changed:
            self._say(failure=None, changed=True)

    def _told(self, status: JsonObject) -> PortError:
        message = f"{self._path}: the watch ended: {optional_text(status, 'message') or 'without a reason'}"
        return GoneError(message) if optional_whole(status, "code") == 410 else UnavailableError(message)

    def _say(self, *, failure: str | None, changed: bool = False) -> None:
        changed = changed or failure != self._failure
        self._failure = failure
        if not changed:
            return
        with self._lock:
            subscribers = tuple(self._subscribers)
        for each in subscribers:
            try:
                each()
            except Exception:
                _log.exception("a subscriber of %s failed", self._path)
