"""Leader election on a real control plane: processes that die, end, and are cut off."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from time import monotonic

import pytest

from tests.cluster.processes import wait_for
from tests.cluster.running import Cluster

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]


class Contender:
    """A process of its own, and what it said of itself."""

    def __init__(self, cluster: Cluster, namespace: str, identity: str) -> None:
        self.identity = identity
        self.said: list[tuple[float, bool]] = []
        self._process = subprocess.Popen(
            (sys.executable, "-m", "tests.cluster.contender", str(cluster.kubeconfig), namespace, identity),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def leads(self) -> bool:
        """What it said last."""
        return bool(self.said) and self.said[-1][1]

    def signal(self, number: int) -> float:
        """Send a signal; when that was."""
        at_s = monotonic()
        self._process.send_signal(number)
        return at_s

    def await_leading(self) -> float:
        """Wait until it leads; since when it does."""
        wait_for(lambda: self.leads, f"{self.identity} leads")
        return self.said[-1][0]

    def await_end(self) -> None:
        """Wait until the process has ended."""
        self._process.wait(timeout=30.0)
        self._reader.join(timeout=30.0)

    def kill(self) -> float:
        """``kill -9``; when that was."""
        at_s = self.signal(signal.SIGKILL)
        self.await_end()
        if self.leads:
            self.said.append((at_s, False))
        return at_s

    def spans(self) -> list[tuple[float, float]]:
        """From when until when it led."""
        ends = [at_s for at_s, _ in self.said[1:]] + [float("inf")]
        return [(at_s, end_s) for (at_s, leads), end_s in zip(self.said, ends, strict=True) if leads]

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                at_s, word = line.split()
                self.said.append((float(at_s), word == "leads"))


Start = Callable[[str], Contender]


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """Of the Lease."""
    with cluster.namespace() as name:
        yield name


@pytest.fixture
def start(cluster: Cluster, namespace: str) -> Iterator[Start]:
    """Starts contenders for one Lease; in the end no two of them have led at the same time."""
    started: list[Contender] = []

    def begin(identity: str) -> Contender:
        contender = Contender(cluster, namespace, identity)
        started.append(contender)
        return contender

    yield begin
    for contender in started:
        contender.kill()
    both = [
        (a.identity, b.identity, at, bt)
        for a, b in combinations(started, 2)
        for at in a.spans()
        for bt in b.spans()
        if at[0] < bt[1] and bt[0] < at[1]
    ]
    assert both == []


def test_after_a_kill_another_leads_within_15_s(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    first = start("first")
    first.await_leading()
    second, third = start("second"), start("third")
    wait_for(lambda: second.said and third.said, "the others follow")
    killed_s = first.kill()
    wait_for(lambda: second.leads or third.leads, "another leads")
    taken_s = max(second.said[-1][0], third.said[-1][0]) - killed_s
    with capsys.disabled():
        print(f"\ntakeover after kill -9: {taken_s:.1f} s")
    assert 0.0 < taken_s < 15.0
    assert second.leads != third.leads


def test_one_that_ends_properly_is_followed_at_once(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    first = start("first")
    first.await_leading()
    second = start("second")
    wait_for(lambda: second.said, "the second follows")
    first.signal(signal.SIGTERM)
    first.await_end()
    ended_s = first.said[-1][0]
    taken_s = second.await_leading() - ended_s
    with capsys.disabled():
        print(f"\ntakeover after a proper end: {taken_s:.1f} s")
    # Far less than the lease of 10 s that would have to run out.
    assert 0.0 < taken_s < 8.0


@pytest.mark.parametrize("outage", ["api_server_hanging", "api_server_down", "etcd_paused"])
def test_a_leader_cut_off_stops_to_lead_before_its_lease_ends_and_all_recovers(
    cluster: Cluster, start: Start, capsys: pytest.CaptureFixture[str], outage: str
) -> None:
    first = start("first")
    first.await_leading()
    second = start("second")
    wait_for(lambda: second.said, "the second follows")
    begun_s = monotonic()
    with getattr(cluster, outage)():
        wait_for(lambda: not first.leads, "the first no longer leads")
        lost_s = first.said[-1][0] - begun_s
        assert not second.leads
    recovering_s = monotonic()
    wait_for(lambda: first.leads or second.leads, "somebody leads")
    with capsys.disabled():
        print(f"\n{outage}: lost after {lost_s:.1f} s, led again {monotonic() - recovering_s:.1f} s after its end")
    assert lost_s < 10.0


def test_a_process_that_was_stopped_for_longer_than_its_lease_does_not_lead_when_it_goes_on(start: Start) -> None:
    first = start("first")
    first.await_leading()
    second = start("second")
    wait_for(lambda: second.said, "the second follows")
    stopped_s = first.signal(signal.SIGSTOP)
    second.await_leading()
    first.signal(signal.SIGCONT)
    wait_for(lambda: not first.leads, "the first has noticed")
    # It could not speak while it stood still: its lead ended, at the latest, with its last renewal's time.
    first.said = [(min(at_s, stopped_s + 7.0) if not leads else at_s, leads) for at_s, leads in first.said]
    assert second.leads


def test_a_lease_deleted_by_hand_is_not_taken_from_a_leader_that_still_believes(
    cluster: Cluster, namespace: str, start: Start
) -> None:
    first = start("first")
    first.await_leading()
    second = start("second")
    wait_for(lambda: second.said, "the second follows")
    cluster.api.delete(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/gpu-autoscaler")
    wait_for(lambda: not first.leads, "the first no longer leads")
    wait_for(lambda: first.leads or second.leads, "somebody leads")
