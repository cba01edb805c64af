"""A collection stays current whatever the server does, and says so where it doesn't."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from time import monotonic, sleep

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.kubernetes.connection import Collection, KubernetesApi
from adapters.kubernetes.contents import Contents, ObjectKey
from adapters.kubernetes.raw_json import JsonObject, whole
from adapters.kubernetes.waiting import Backoff, EventWaiter
from adapters.kubernetes.watching import Watched, WatchPace
from autoscaler.ports import UnavailableError
from tests.adapters_kubernetes.scripted_server import (
    Answer,
    Exchange,
    ScriptedServer,
    bookmark,
    cut,
    event,
    held,
    page,
    thing,
    told,
    watch,
    watch_cut,
    watch_held,
)

THINGS = Collection(group="example.org", version="v1", plural="things")
_PACE = WatchPace(page=2, silence_s=0.5, list_timeout_s=0.5)


def _size(source: JsonObject) -> int:
    return whole(source, "spec", "size")


class PromptWaiter(EventWaiter):
    """Lets no time pass, and remembers how long was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses_s: list[float] = []

    def wait(self, duration_s: float) -> bool:
        self.pauses_s.append(duration_s)
        return super().wait(0.0)


class Following:
    """A watched collection of a scripted server, with a clock that tests set."""

    def __init__(self, api: KubernetesApi, *, optional: bool = False, field_selector: str = "") -> None:
        self.at_s = 1000.0
        self.waiter = PromptWaiter()
        self.unreadable: list[tuple[str, str]] = []
        self.things = Watched(
            api,
            THINGS,
            _size,
            now_s=lambda: self.at_s,
            field_selector=field_selector,
            optional=optional,
            on_unreadable=lambda key, reason: self.unreadable.append((str(key), reason)),
            pace=_PACE,
            waiter=self.waiter,
        )

    def sizes(self) -> Mapping[str, int]:
        """What is known now, by name."""
        return {key.name: size for key, size in self.things.items().items()}


Follow = Callable[..., Following]


@pytest.fixture
def follow(api: KubernetesApi) -> Iterator[Follow]:
    """Starts to follow the scripted server."""
    started: list[Following] = []

    def start(*, optional: bool = False, field_selector: str = "") -> Following:
        following = Following(api, optional=optional, field_selector=field_selector)
        started.append(following)
        following.things.start()
        return following

    yield start
    for following in started:
        following.things.close()


def until(true: Callable[[], bool]) -> None:
    """Wait for an effect of another thread."""
    ends_s = monotonic() + 20.0
    while not true():
        assert monotonic() < ends_s, "it did not come about"
        sleep(0.005)


def _requested(server: ScriptedServer, number: int) -> Callable[[], bool]:
    return lambda: len(server.requests) >= number


def test_events_are_followed(server: ScriptedServer, follow: Follow) -> None:
    server.answers(
        page([thing("a", "5", size=1), thing("b", "6", size=2)], "10"),
        watch_held(
            event("ADDED", thing("c", "11", size=3)),
            event("MODIFIED", thing("a", "12", size=9)),
            event("DELETED", thing("b", "13", size=2)),
        ),
    )
    following = follow(field_selector="spec.node=n1")
    until(lambda: following.things.synced and following.sizes() == {"a": 9, "c": 3})
    assert following.things.failure is None
    listing, watching = server.requests
    assert listing.path == watching.path == "/apis/example.org/v1/things"
    assert listing.query == {"fieldSelector": "spec.node=n1", "limit": "2"}
    assert watching.query == {
        "fieldSelector": "spec.node=n1",
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "10",
        "timeoutSeconds": "30",
    }


def test_pages_are_one_collection(server: ScriptedServer, follow: Follow) -> None:
    server.answers(
        page([thing("a", "1", size=1), thing("b", "1", size=2)], "10", more="next"),
        page([thing("c", "1", size=3)], "10"),
        watch_held(),
    )
    following = follow()
    until(_requested(server, 3))
    assert following.sizes() == {"a": 1, "b": 2, "c": 3}
    assert server.requests[1].query == {"limit": "2", "continue": "next"}


def test_pages_that_were_compacted_away_are_listed_in_one_piece(server: ScriptedServer, follow: Follow) -> None:
    server.answers(
        page([thing("a", "1", size=1)], "10", more="next"),
        told(410, "the provided continue parameter is too old"),
        page([thing("b", "1", size=2)], "20"),
        watch_held(),
    )
    following = follow()
    until(_requested(server, 4))
    assert following.sizes() == {"b": 2}
    assert server.requests[2].query == {}
    assert server.requests[3].query["resourceVersion"] == "20"


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(watch(event("ADDED", thing("b", "11", size=2)), bookmark("15")), id="ended by the server"),
        pytest.param(watch_cut(event("ADDED", thing("b", "11", size=2)), bookmark("15")), id="cut"),
        pytest.param(
            watch_cut(event("ADDED", thing("b", "11", size=2)), bookmark("15"), b'{"type": "ADD'), id="cut in a line"
        ),
        pytest.param(watch_held(event("ADDED", thing("b", "11", size=2)), bookmark("15")), id="silent"),
    ],
)
def test_a_watch_that_ends_is_resumed_where_it_stood(server: ScriptedServer, follow: Follow, ending: Answer) -> None:
    server.answers(
        page([thing("a", "5", size=1)], "10"), ending, watch_held(event("DELETED", thing("a", "16", size=1)))
    )
    following = follow()
    until(lambda: following.things.synced and following.sizes() == {"b": 2})
    assert [request.query.get("resourceVersion") for request in server.requests[:3]] == [None, "10", "15"]


@pytest.mark.parametrize(
    "failing",
    [
        pytest.param(told(500, "etcd is gone"), id="500"),
        pytest.param(told(503, "starting"), id="503"),
        pytest.param(told(429, "slow down"), id="429"),
        pytest.param(told(403, "no rights"), id="403"),
        pytest.param(cut, id="cut"),
        pytest.param(held, id="hung"),
        pytest.param(lambda e: e.whole(200, b"<html>") if "watch" not in e.request.query else e.cut(), id="garbage"),
    ],
)
def test_failures_are_waited_out_and_what_was_known_is_kept(
    server: ScriptedServer, follow: Follow, failing: Answer
) -> None:
    server.answers(failing, page([thing("a", "5", size=1)], "10"), failing, watch_held(bookmark("11")))
    following = follow()
    until(lambda: following.things.synced)
    until(_requested(server, 4))
    until(lambda: following.things.failure is None)
    assert following.sizes() == {"a": 1}
    assert server.requests[3].query["resourceVersion"] == "10"
    first, second, *_ = following.waiter.pauses_s
    assert first >= 0.25
    assert second >= 0.5


@pytest.mark.parametrize(
    "lost",
    [
        pytest.param(told(410, "too old resource version"), id="410"),
        pytest.param(
            watch(event("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})),
            id="410 as an event",
        ),
        pytest.param(watch(b"{no JSON}\n"), id="garbage"),
        pytest.param(watch(b"[1]\n"), id="a list"),
        pytest.param(watch(event("RENAMED", thing("a", "11", size=2))), id="an unknown event"),
        pytest.param(watch(event("ADDED", {"metadata": {"name": "a"}})), id="an event without version"),
        pytest.param(watch(event("ADDED", {"metadata": {"resourceVersion": "11"}})), id="an event without name"),
        pytest.param(watch(bookmark("7")), id="a store set back"),
    ],
)
def test_a_watch_that_lost_its_place_lists_anew(server: ScriptedServer, follow: Follow, lost: Answer) -> None:
    server.answers(
        page([thing("a", "5", size=1)], "10"), lost, page([thing("b", "20", size=2)], "20"), watch_held(bookmark("21"))
    )
    following = follow()
    until(_requested(server, 4))
    until(lambda: following.things.failure is None)
    assert following.sizes() == {"b": 2}
    assert server.requests[3].query["resourceVersion"] == "20"


def test_another_error_event_resumes(server: ScriptedServer, follow: Follow) -> None:
    server.answers(
        page([], "10"),
        watch(bookmark("12"), event("ERROR", {"kind": "Status", "code": 500, "message": "etcdserver: no leader"})),
        watch_held(),
    )
    follow()
    until(_requested(server, 3))
    assert server.requests[2].query["resourceVersion"] == "12"


def test_pauses_grow_while_nothing_comes_and_are_short_again_afterwards(server: ScriptedServer, follow: Follow) -> None:
    server.answers(page([], "10"), *[watch()] * 8, watch(bookmark("11")), held)
    following = follow()
    until(_requested(server, 11))
    pauses_s = following.waiter.pauses_s
    wholes_s = [min(0.5 * 2**number, 10.0) for number in range(8)]
    assert all(whole_s / 2 <= pause_s <= whole_s for pause_s, whole_s in zip(pauses_s, wholes_s, strict=False))
    assert pauses_s[8] == _PACE.between_watches_s


def test_a_quiet_watch_that_lasted_is_no_failure(server: ScriptedServer, follow: Follow) -> None:
    following: list[Following] = []

    def quiet(exchange: Exchange) -> None:
        until(lambda: bool(following))
        following[0].at_s = 1001.0
        exchange.begin_chunks()
        until(lambda: following[0].things.heard_s == 1001.0)
        following[0].at_s = 1031.0
        exchange.chunk(b"")

    server.answers(page([], "10"), quiet, held)
    following.append(follow())
    until(_requested(server, 3))
    assert following[0].waiter.pauses_s == [_PACE.between_watches_s]
    assert following[0].things.heard_s == 1031.0
    assert server.requests[2].query["resourceVersion"] == "10"


def test_a_pause_the_server_asks_for_is_kept(server: ScriptedServer, follow: Follow) -> None:
    server.answers(told(429, "slow down", {"Retry-After": "9"}), held)
    following = follow()
    until(_requested(server, 2))
    assert following.waiter.pauses_s[0] >= 9.0


# What readers are told


def test_nothing_is_told_before_all_is_known(server: ScriptedServer, follow: Follow) -> None:
    server.answers(told(403, "User cannot list"), held)
    following = follow()
    until(_requested(server, 2))
    assert following.things.heard_s is None
    with pytest.raises(UnavailableError, match=r"not known yet: GET .*: 403 User cannot list"):
        following.things.items()


def test_when_the_server_was_heard(server: ScriptedServer, follow: Follow) -> None:
    go_on = threading.Event()

    def later(exchange: Exchange) -> None:
        go_on.wait(timeout=20.0)
        watch_held(bookmark("11"))(exchange)

    server.answers(page([], "10"), watch(bookmark("10")), later)
    following = follow()
    until(_requested(server, 3))
    assert following.things.heard_s == 1000.0
    following.at_s = 1030.0
    go_on.set()
    until(lambda: following.things.heard_s == 1030.0)


def test_a_picture_stays_and_is_made_anew_only_after_a_change(server: ScriptedServer, follow: Follow) -> None:
    go_on = threading.Event()

    def after_a_while(exchange: Exchange) -> None:
        go_on.wait(timeout=20.0)
        watch_held(event("MODIFIED", thing("a", "20", size=2)))(exchange)

    server.answers(
        page([thing("a", "5", size=1)], "10"),
        watch(*[event("MODIFIED", thing("a", str(11 + n), size=1)) for n in range(3)]),
        after_a_while,
    )
    following = follow()
    until(lambda: following.things.synced)
    before, version = following.things.items(), following.things.version
    until(_requested(server, 3))
    assert following.things.items() is before, "an update that says nothing new is no change"
    assert following.things.version == version
    go_on.set()
    until(lambda: following.things.version > version)
    assert following.sizes() == {"a": 2}
    assert before == {ObjectKey("x", "a"): 1}


def test_subscribers_are_woken_by_news_and_one_that_fails_harms_nobody(
    server: ScriptedServer, api: KubernetesApi
) -> None:
    server.answers(
        page([thing("a", "5", size=1)], "10"),
        watch_cut(event("MODIFIED", thing("a", "11", size=1)), event("MODIFIED", thing("a", "12", size=2))),
        watch_held(bookmark("13")),
    )
    following = Following(api)
    seen: list[tuple[bool, str | None, int]] = []

    def fail() -> None:
        raise RuntimeError("a subscriber's mistake")

    def look() -> None:
        things = following.things
        seen.append((things.synced, things.failure and "failed", sum(following.sizes().values())))

    following.things.subscribe(fail)
    following.things.subscribe(look)
    end = following.things.subscribe(lambda: pytest.fail("was ended"))
    end()
    following.things.start()
    until(lambda: len(seen) >= 4)
    following.things.close()
    assert seen[:4] == [(True, None, 1), (True, None, 2), (True, "failed", 2), (True, None, 2)]


def test_a_bad_object_holds_only_itself(server: ScriptedServer, follow: Follow) -> None:
    server.answers(
        page([thing("good", "5", size=1), thing("bad", "6", size="big")], "10"),
        watch_held(
            event("MODIFIED", thing("bad", "11", size="big")),
            event("MODIFIED", thing("good", "12", size=None)),
            event("ADDED", thing("late", "13", size=3)),
        ),
    )
    following = follow()
    until(lambda: following.things.synced and following.sizes() == {"late": 3})
    assert following.things.unreadable() == {
        ObjectKey("x", "bad"): "spec.size: wanted a whole number, got 'big'",
        ObjectKey("x", "good"): "spec.size: missing",
    }
    assert [name for name, _ in following.unreadable] == ["x/bad", "x/good"], "each reason is told once"


# Kinds that may be missing


def test_a_kind_that_is_not_installed_costs_a_question_a_minute(server: ScriptedServer, follow: Follow) -> None:
    server.answers(told(404, "404 page not found"), page([thing("a", "5", size=1)], "10"), watch_held())
    following = follow(optional=True)
    until(_requested(server, 3))
    assert following.waiter.pauses_s[0] == _PACE.absent_pause_s
    assert not following.things.absent
    assert following.sizes() == {"a": 1}


def test_a_kind_that_is_not_installed_is_empty_and_said_to_be_absent(server: ScriptedServer, follow: Follow) -> None:
    server.answers(told(404, "404 page not found"), held)
    following = follow(optional=True)
    assert following.things.wait_synced(20.0)
    until(lambda: following.things.absent)
    assert following.sizes() == {}
    assert following.things.failure is None


def test_objects_do_not_vanish_because_a_starting_server_does_not_know_the_kind_yet(
    server: ScriptedServer, follow: Follow
) -> None:
    server.answers(
        page([thing("a", "5", size=1)], "10"), cut, told(404, "no"), told(404, "no"), watch_held(bookmark("11"))
    )
    following = follow(optional=True)
    until(_requested(server, 4))
    assert following.sizes() == {"a": 1}
    assert not following.things.absent


def test_a_kind_that_is_removed_becomes_absent(server: ScriptedServer, follow: Follow) -> None:
    server.answers(page([thing("a", "5", size=1)], "10"), cut, *[told(404, "no")] * 3, held)
    following = follow(optional=True)
    until(lambda: following.things.absent)
    assert following.sizes() == {}


def test_a_kind_that_must_be_there_is_a_failure(server: ScriptedServer, follow: Follow) -> None:
    server.answers(*[told(404, "the server could not find the requested resource")] * 5, held)
    following = follow()
    until(_requested(server, 6))
    assert not following.things.synced
    assert "could not find" in (following.things.failure or "")


def test_closing_ends_a_quiet_watch(server: ScriptedServer, api: KubernetesApi) -> None:
    server.answers(page([], "10"), watch_held())
    following = Watched(api, THINGS, _size, now_s=lambda: 0.0)
    following.start()
    until(_requested(server, 2))
    following.close()
    until(lambda: "watch /apis/example.org/v1/things" not in {thread.name for thread in threading.enumerate()})


# Promises


_objects = st.builds(
    lambda name, size: (name, size), st.sampled_from("abcd"), st.one_of(st.integers(0, 3), st.just("unreadable"))
)


@given(st.lists(st.tuples(st.sampled_from(("put", "remove", "replace")), st.lists(_objects, max_size=4))))
def test_contents_are_those_of_a_plain_model(steps: list[tuple[str, list[tuple[str, object]]]]) -> None:
    contents = Contents(_size, report=lambda key, reason: None)
    model: dict[str, object] = {}
    for kind, given_objects in steps:
        before, shown = contents.version, contents.items()
        copied = dict(shown)
        previous = dict(model)
        if kind == "replace":
            model = dict(given_objects)
            contents.replace(thing(name, "1", size=size) for name, size in model.items())
        for name, size in given_objects:
            if kind == "put":
                model[name] = size
                contents.put(thing(name, "1", size=size))
            elif kind == "remove":
                model.pop(name, None)
                contents.remove(thing(name, "1"))
        assert {key.name: size for key, size in contents.items().items()} == {
            name: size for name, size in model.items() if isinstance(size, int)
        }
        assert {key.name for key in contents.unreadable()} == {n for n, s in model.items() if not isinstance(s, int)}
        assert shown == copied, "a picture stays as it is"
        if model != previous:
            assert contents.version > before
        elif kind == "replace":
            assert contents.version == before


@given(st.floats(0.01, 5.0), st.floats(1.0, 50.0), st.lists(st.floats(0.0, 1.0), max_size=60))
def test_a_pause_is_never_nothing_and_never_endless(first_s: float, factor: float, chances: list[float]) -> None:
    remaining = iter(chances)
    backoff = Backoff(first_s=first_s, most_s=first_s * factor, chance=lambda: next(remaining))
    for _ in chances:
        assert first_s / 2 <= backoff.next_s() <= first_s * factor
