"""Leadership over HTTP: taken, kept, lost in time, given up."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from itertools import count
from time import monotonic, sleep

import pytest

from adapters.kubernetes.connection import KubernetesApi
from adapters.kubernetes.election import Terms
from adapters.kubernetes.leadership import Leadership
from adapters.kubernetes.raw_json import moment_s
from adapters.kubernetes.waiting import EventWaiter
from tests.adapters_kubernetes.scripted_server import Answer, Exchange, ScriptedServer, answered, cut, held, told

PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"


class LeaseStore:
    """The Lease resource of an API server, versions included."""

    def __init__(self) -> None:
        self.lease: dict[str, object] | None = None
        self._versions = count(1)
        self._lock = threading.Lock()

    def spec(self) -> dict[str, object]:
        """Of the present Lease."""
        assert self.lease is not None
        spec = self.lease["spec"]
        assert isinstance(spec, dict)
        return spec

    def metadata(self) -> dict[str, object]:
        """Of the present Lease."""
        assert self.lease is not None
        metadata = self.lease["metadata"]
        assert isinstance(metadata, dict)
        return metadata

    def __call__(self, exchange: Exchange) -> None:
        """Answer one request."""
        with self._lock:
            code, body = self._answer(exchange)
        exchange.whole(code, json.dumps(body).encode())

    def _answer(self, exchange: Exchange) -> tuple[int, object]:
        request = exchange.request
        if request.verb == "POST" and request.path == PATH:
            if self.lease is not None:
                return 409, {"message": "already exists"}
            version = str(next(self._versions))
            self.lease = request.json()
            self.lease["metadata"] = {**self.metadata(), "uid": f"uid-{version}", "resourceVersion": version}
            return 201, self.lease
        if self.lease is None or request.path != f"{PATH}/gpu-autoscaler":
            return 404, {"message": "not found"}
        if request.verb == "PUT":
            written = request.json()
            metadata = written["metadata"]
            assert isinstance(metadata, dict)
            if metadata["resourceVersion"] != self.metadata()["resourceVersion"]:
                return 409, {"message": "the object has been modified"}
            self.lease = {**written, "metadata": {**metadata, "resourceVersion": str(next(self._versions))}}
        return 200, self.lease


class SharedTime:
    """A clock that moves to the next end of a pause whenever all who use it pause."""

    def __init__(self) -> None:
        self.at_s = 1000.0
        self._stopped = False
        self._members = 0
        self._until_s: dict[object, float] = {}
        self._moved = threading.Condition()

    def now_s(self) -> float:
        """The time."""
        return self.at_s

    def join(self) -> None:
        """One more who uses it."""
        with self._moved:
            self._members += 1

    def leave(self, member: object) -> None:
        """One less."""
        with self._moved:
            self._members -= 1
            self._until_s.pop(member, None)
            self._move()

    def pause(self, member: object, duration_s: float, over: Callable[[], bool]) -> None:
        """Return after ``duration_s``, or when it is ``over``."""
        with self._moved:
            self._until_s[member] = self.at_s + duration_s
            self._move()
            self._moved.wait_for(lambda: over() or self.at_s >= self._until_s.get(member, 0.0), timeout=20.0)
            self._until_s.pop(member, None)

    def stop(self) -> None:
        """Stand still."""
        with self._moved:
            self._stopped = True

    def go_on(self, *, after_s: float = 0.0) -> None:
        """Move on."""
        with self._moved:
            self._stopped = False
            self.at_s += after_s
            self._move()

    def _move(self) -> None:
        if not self._stopped and 0 < self._members == len(self._until_s):
            self.at_s = max(self.at_s, min(self._until_s.values()))
        self._moved.notify_all()


class Contender(EventWaiter):
    """One process, with the time that it shares with the others."""

    def __init__(self, api: KubernetesApi, time: SharedTime, identity: str) -> None:
        super().__init__()
        self.changes: list[bool] = []
        self.looks = 0
        self._time = time
        self._over = False
        time.join()
        self.leadership = Leadership(
            api,
            namespace="ns",
            name="gpu-autoscaler",
            terms=Terms(identity=identity),
            now_s=time.now_s,
            on_change=self.changes.append,
            waiter=self,
        )

    def wait(self, duration_s: float) -> bool:
        self.looks += 1
        self._time.pause(self, duration_s, lambda: self._over)
        return super().wait(0.0)

    def stop(self) -> None:
        super().stop()
        if not self._over:
            self._over = True
            self._time.leave(self)


Contend = Callable[[str], Contender]


@pytest.fixture
def store(server: ScriptedServer) -> LeaseStore:
    """Answers whatever is not in the server's script."""
    leases = LeaseStore()
    server.otherwise = leases
    return leases


@pytest.fixture
def time() -> SharedTime:
    """Of all contenders."""
    return SharedTime()


@pytest.fixture
def contend(api: KubernetesApi, store: LeaseStore, time: SharedTime) -> Iterator[Contend]:
    """Starts a contender."""
    started: list[Contender] = []

    def start(identity: str) -> Contender:
        contender = Contender(api, time, identity)
        started.append(contender)
        contender.leadership.start()
        return contender

    yield start
    for contender in started:
        contender.leadership.close()


def until(true: Callable[[], bool]) -> None:
    """Wait for an effect of another thread."""
    ends_s = monotonic() + 20.0
    while not true():
        assert monotonic() < ends_s, "it did not come about"
        sleep(0.002)


def test_a_missing_lease_is_made_and_taken_when_it_has_aged(
    store: LeaseStore, time: SharedTime, contend: Contend
) -> None:
    first = contend("first")
    until(first.leadership.is_leader)
    until(lambda: first.looks > 20)
    assert time.at_s >= 1010.0
    assert first.changes == [True]
    assert first.leadership.holder == "first"
    assert store.spec()["leaseTransitions"] == 1
    assert store.spec()["leaseDurationSeconds"] == 10


def test_a_second_one_waits_and_takes_over_at_once_when_the_first_ends(
    store: LeaseStore, time: SharedTime, contend: Contend
) -> None:
    first = contend("first")
    until(first.leadership.is_leader)
    second = contend("second")
    until(lambda: second.looks > 50)
    assert not second.leadership.is_leader()
    assert second.leadership.holder == "first"
    time.stop()
    first.leadership.close()
    assert not first.leadership.is_leader()
    assert first.changes == [True, False]
    assert store.spec()["holderIdentity"] == ""
    ended_s = time.at_s
    time.go_on()
    until(second.leadership.is_leader)
    time.stop()
    assert second.leadership.remaining_s() > 0.0
    assert store.spec()["leaseTransitions"] == 2
    assert moment_s(store.spec(), "acquireTime") == pytest.approx(ended_s, abs=2.0)


def test_one_that_steps_aside_lets_another_in_and_contends_again(
    store: LeaseStore, time: SharedTime, contend: Contend
) -> None:
    first = contend("first")
    until(first.leadership.is_leader)
    second = contend("second")
    until(lambda: second.looks > 5)
    time.stop()
    first.leadership.step_aside()
    assert not first.leadership.is_leader()
    aside_s = time.at_s
    time.go_on()
    until(second.leadership.is_leader)
    time.stop()
    assert not first.leadership.is_leader()
    assert store.spec()["holderIdentity"] == "second"
    assert time.at_s - aside_s < Terms(identity="any").lease_s, "it was given up, and did not have to run out"
    second.leadership.step_aside()
    time.go_on()
    until(first.leadership.is_leader)
    assert not second.leadership.is_leader()


def test_alone_it_leads_again_after_it_has_stepped_aside(store: LeaseStore, time: SharedTime, contend: Contend) -> None:
    first = contend("first")
    until(first.leadership.is_leader)
    time.stop()
    first.leadership.step_aside()
    aside_s = time.at_s
    time.go_on()
    until(first.leadership.is_leader)
    time.stop()
    assert store.spec()["leaseTransitions"] == 2
    assert time.at_s - aside_s >= 2 * Terms(identity="any").lease_s
    assert first.changes == [True, False, True]


def test_one_that_vanishes_is_followed_when_its_lease_has_run_out(
    store: LeaseStore, time: SharedTime, contend: Contend
) -> None:
    store.lease = {
        "metadata": {"name": "gpu-autoscaler", "uid": "u", "resourceVersion": "0"},
        "spec": {"holderIdentity": "gone", "leaseDurationSeconds": 10, "renewTime": "2100-01-01T00:00:00.000000Z"},
    }
    contend("first")
    second = contend("second")
    until(lambda: second.looks > 20)
    assert store.spec()["leaseTransitions"] == 1
    assert moment_s(store.spec(), "acquireTime") == 1010.0


@pytest.mark.parametrize(
    "failing",
    [
        pytest.param(held, id="hung"),
        pytest.param(cut, id="cut"),
        pytest.param(told(500, "etcd is gone"), id="500"),
        pytest.param(told(409, "modified"), id="conflict after conflict"),
        pytest.param(told(401, "Unauthorized"), id="401"),
        pytest.param(answered({"metadata": {}, "spec": {"holderIdentity": 3}}), id="garbage"),
    ],
)
def test_leadership_ends_by_itself_while_the_server_fails(
    server: ScriptedServer, store: LeaseStore, time: SharedTime, contend: Contend, failing: Answer
) -> None:
    leader = contend("leader")
    until(leader.leadership.is_leader)
    time.stop()
    server.otherwise = failing
    started = len(server.requests)
    assert leader.leadership.is_leader()
    left_s = leader.leadership.remaining_s()
    assert left_s <= 7.0
    time.go_on(after_s=left_s)
    assert not leader.leadership.is_leader()
    until(lambda: len(server.requests) > started)
    assert not leader.leadership.is_leader()
    server.otherwise = store
    until(leader.leadership.is_leader)


def test_a_deleted_lease_ends_leadership_until_a_new_one_has_aged(store: LeaseStore, contend: Contend) -> None:
    leader = contend("leader")
    until(leader.leadership.is_leader)
    until(lambda: leader.looks > 10)
    store.lease = None
    until(lambda: leader.changes[:3] == [True, False, True])
    assert store.spec()["holderIdentity"] == "leader"


def test_what_others_wrote_on_the_lease_stays(store: LeaseStore, contend: Contend) -> None:
    store.lease = {
        "metadata": {
            "name": "gpu-autoscaler",
            "uid": "u",
            "resourceVersion": "0",
            "labels": {"team": "ml"},
            "managedFields": [{"manager": "helm"}],
        },
        "spec": {},
    }
    leader = contend("leader")
    until(leader.leadership.is_leader)
    assert store.metadata()["labels"] == {"team": "ml"}
    assert "managedFields" not in store.metadata()


def test_missing_rights_are_told(server: ScriptedServer, contend: Contend) -> None:
    server.otherwise = told(403, 'leases "gpu-autoscaler" is forbidden: User "u" cannot get resource "leases"')
    leader = contend("leader")
    until(lambda: leader.leadership.failure is not None)
    assert 'cannot get resource "leases"' in (leader.leadership.failure or "")
    assert not leader.leadership.is_leader()
    assert leader.leadership.holder is None


def test_a_server_that_is_gone_does_not_keep_the_process_from_ending(server: ScriptedServer, contend: Contend) -> None:
    leader = contend("leader")
    until(leader.leadership.is_leader)
    server.otherwise = cut
    leader.leadership.close()
    assert not leader.leadership.is_leader()


def test_a_listener_that_fails_harms_nobody(api: KubernetesApi, store: LeaseStore) -> None:
    store.lease = {
        "metadata": {"name": "gpu-autoscaler", "uid": "u", "resourceVersion": "0"},
        "spec": {"holderIdentity": "", "leaseDurationSeconds": 1},
    }

    def fail(leads: bool) -> None:  # noqa: FBT001
        raise RuntimeError(f"a listener's mistake, {leads}")

    leadership = Leadership(
        api,
        namespace="ns",
        name="gpu-autoscaler",
        terms=Terms(identity="one"),
        now_s=lambda: 1000.0,
        on_change=fail,
    )
    leadership.start()
    until(leadership.is_leader)
    leadership.close()
    assert store.spec()["holderIdentity"] == ""
