"""Several replicas of the controller under load: leaders that die, end and stand still, and a control plane that fails.

Whatever happens, no replica of the service is taken away while its load holds, and none but the leader writes.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import chat
from tests.cluster.controllers import ControllerProcess, running
from tests.cluster.load import Load
from tests.cluster.processes import wait_for
from tests.cluster.replica_set import ReplicaSet, replica_set, watched
from tests.cluster.running import Cluster
from tests.cluster.workloads import await_ready_pods

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

TAKEOVER_S = 15.0
STATUSES = "inferenceautoscalers/status"


@dataclass(frozen=True)
class Scene:
    """A service under a steady load in a namespace of its own, with a node that has eight GPUs."""

    cluster: Cluster
    namespace: str
    folder: Path
    capsys: pytest.CaptureFixture[str]

    @contextmanager
    def settled(self, *, count: int = 2, mode: str = "Scale") -> Iterator[ReplicaSet]:
        """So many replicas of the controller, which have given the service the replicas that its load needs."""
        chat.deploy(self.cluster, self.namespace)
        with (
            replica_set(self.cluster, self.namespace, self.folder, count=count) as controllers,
            Load(self.cluster, self.namespace, rps=23),
        ):
            behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
            self.cluster.apply([chat.autoscaler(mode=mode, behavior=behavior)], namespace=self.namespace)
            if mode == "Advise":
                port = controllers.members[0].settings["externalMetrics"]["port"]
                self.cluster.serve_api_service(namespace="autoscaler", service="metrics", port=port)
                self.cluster.apply(chat.manifests("hpa", self.namespace, self.folder))
            wait_for(lambda: self.replicas() >= 3, f"three replicas; see {self.folder}", within_s=120)
            self._await_steady()
            yield controllers
            assert STATUSES in {each.what for each in controllers.writes()}
        if mode == "Advise":
            self.cluster.remove_api_service()

    def replicas(self) -> int:
        """That the Deployment is asked for."""
        return chat.replicas(self.cluster, self.namespace)

    def say(self, text: str) -> None:
        """Print a figure."""
        with self.capsys.disabled():
            print(f"\n{text}", flush=True)

    def _await_steady(self) -> None:
        """Until all pods are ready, and the count has stayed for a while."""
        since_s, last = time.monotonic(), 0

        def steady() -> bool:
            nonlocal since_s, last
            now = self.replicas()
            if now != last:
                since_s, last = time.monotonic(), now
            return time.monotonic() - since_s > 10

        wait_for(steady, "a steady count", within_s=120)
        await_ready_pods(self.cluster, self.namespace, last, app="chat")


@pytest.fixture
def scene(cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Scene]:
    """One for each test."""
    cluster.define_kinds(Path(__file__).parents[2] / "charts/gpu-autoscaler/crds")
    with cluster.namespace() as namespace, cluster.nodes.added(f"gpu-{namespace}", resources={chat.GPU: "8"}):
        yield Scene(cluster, namespace, tmp_path, capsys)


def decided_s(controllers: ReplicaSet) -> float:
    """When the decision was made that the resource tells; seconds since the epoch."""
    return datetime.fromisoformat(controllers.status()["decidedAt"]).timestamp()


def decided_since(controllers: ReplicaSet, at_s: float) -> bool:
    """Whether a decision that was made later is told."""
    return decided_s(controllers) > at_s


def values(seen: Sequence[tuple[float, Any]]) -> set[Any]:
    """All that were seen."""
    return {value for _, value in seen}


@pytest.mark.parametrize(
    ("mode", "times"), [pytest.param("Scale", 8, id="directly"), pytest.param("Advise", 3, id="through an HPA")]
)
def test_leaders_killed_at_any_point_of_a_tick_take_no_replica_away(scene: Scene, mode: str, times: int) -> None:
    chance = random.Random(7)
    with scene.settled(mode=mode) as controllers:
        before, took = scene.replicas(), []
        with watched(scene.replicas) as (counts,):
            for _ in range(times):
                time.sleep(chance.uniform(0, 1))  # the point of the tick
                leader, identity = controllers.leading(), chat.holder_of(scene.cluster, scene.namespace)
                killed_s = time.monotonic()
                leader.kill()
                took.append(controllers.await_other(identity) - killed_s)
                leader.start()
                leader.await_ready()
        scene.say(f"takeovers after kill -9, {mode}: {', '.join(f'{each:.1f}' for each in took)} s")
        assert max(took) < TAKEOVER_S
        assert min(values(counts)) >= before


@pytest.mark.parametrize(
    ("outage", "lasts_s"),
    [
        pytest.param("api_server_down", 12, id="the API server is killed"),
        pytest.param("api_server_hanging", 15, id="the API server hangs"),
        pytest.param("etcd_paused", 10, id="etcd is paused"),
    ],
)
def test_an_outage_of_the_control_plane_takes_no_replica_away(scene: Scene, outage: str, lasts_s: int) -> None:
    with scene.settled() as controllers:
        before = scene.replicas()
        leader, members = controllers.leading(), controllers.members
        gave_up = controllers.said(leader, "not leading any more")
        asked = [partial(controllers.external_metric, each) for each in members]
        asked += [partial(controllers.keda_metric, each) for each in members]
        with watched(scene.replicas, *asked) as (counts, *answers):
            begun_s = time.monotonic()
            with getattr(scene.cluster, outage)():
                wait_for(
                    lambda: controllers.said(leader, "not leading any more") > gave_up,
                    "the leader has stopped deciding",
                )
                stopped_s = time.monotonic() - begun_s
                wait_for(lambda: time.monotonic() - begun_s > lasts_s, "the end of the outage")
            ended_s = time.time()
            wait_for(partial(decided_since, controllers, ended_s), "somebody decides again")
            recovered_s = time.time() - ended_s
            wait_for(lambda: all(each[-1][1] is not None for each in answers), "all answer again")
        scene.say(f"{outage}: stopped deciding after {stopped_s:.1f} s, again {recovered_s:.1f} s after its end")
        assert stopped_s < 15.0
        assert min(values(counts)) >= before
        for each in answers:
            assert min(values(each) - {None}) >= before


def test_a_leader_told_to_end_is_followed_at_once(scene: Scene) -> None:
    with scene.settled() as controllers:
        took = []
        for _ in range(4):
            leader, identity = controllers.leading(), chat.holder_of(scene.cluster, scene.namespace)
            told_s = time.monotonic()
            leader.signal(signal.SIGTERM)
            took.append(controllers.await_other(identity) - told_s)
            leader.stop()
            leader.start()
            leader.await_ready()
        scene.say(f"takeovers after SIGTERM: {', '.join(f'{each:.1f}' for each in took)} s")
        assert max(took) < 3.0


def test_statuses_stay_fresh_while_all_replicas_are_restarted_in_turn(scene: Scene) -> None:
    with scene.settled() as controllers:
        before = scene.replicas()

        def left_s() -> float:
            """For how long the status still is an answer."""
            status = controllers.status()
            return float(status["staleAfterSeconds"]) - (time.time() - decided_s(controllers))

        with watched(scene.replicas, left_s) as (counts, left):
            for each in controllers.members:
                each.stop()
                each.start()
                each.await_ready()
                restarted_s = time.time()
                wait_for(partial(decided_since, controllers, restarted_s), "somebody decides")
        scene.say(f"rolling restart: statuses had at least {min(values(left)):.1f} s left")
        assert min(values(left)) > 0
        assert min(values(counts)) >= before


def test_a_leader_that_stood_still_for_longer_than_its_lease_writes_nothing_after_it_woke(scene: Scene) -> None:
    chance = random.Random(11)
    with scene.settled() as controllers:
        before = scene.replicas()
        with watched(scene.replicas) as (counts,):
            for _ in range(4):
                time.sleep(chance.uniform(0, 1))
                leader, identity = controllers.leading(), chat.holder_of(scene.cluster, scene.namespace)
                leader.signal(signal.SIGSTOP)
                controllers.await_other(identity)
                woken_s = time.time()
                leader.signal(signal.SIGCONT)
                wait_for(partial(decided_since, controllers, woken_s + 3), "the other one decides on")
                assert [each for each in controllers.writes() if each.by == leader.name and each.at_s > woken_s] == []
                assert controllers.leading() is not leader
                assert leader.get("/readyz")[0] == 200
        assert min(values(counts)) >= before


def test_a_takeover_changes_no_target(scene: Scene) -> None:
    with scene.settled(count=3) as controllers:
        with watched(scene.replicas, lambda: controllers.status()["desiredReplicas"]) as (counts, told):
            time.sleep(10)
            identity, killed_s = chat.holder_of(scene.cluster, scene.namespace), time.monotonic()
            controllers.leading().kill()
            controllers.await_other(identity)
            wait_for(partial(decided_since, controllers, time.time()), "the other one decides on")
            taken_s = time.monotonic()
            time.sleep(20)
        for seen in (counts, told):
            at_takeover = values([each for each in seen if killed_s <= each[0] <= taken_s])
            assert len(at_takeover) == 1
            # Later the load, which lies near a step, may ask for one more.
            later = values([each for each in seen if each[0] > taken_s])
            assert later <= {*at_takeover, *(count + 1 for count in at_takeover)}


def test_the_leader_and_its_followers_tell_hpa_and_keda_the_same(scene: Scene) -> None:
    def answers(member: ControllerProcess) -> tuple[float | None, float | None]:
        return controllers.external_metric(member), controllers.keda_metric(member)

    def agree(members: Sequence[ControllerProcess]) -> bool:
        desired = float(controllers.status()["desiredReplicas"])
        return {answers(each) for each in members} == {(desired, desired)}

    with scene.settled(count=3) as controllers:
        wait_for(partial(agree, controllers.members), "all tell the number of the status")
        holder, leader = chat.holder_of(scene.cluster, scene.namespace), controllers.leading()
        told = {each.name: each.get("/api/v1/services")[1]["decided_by"] for each in controllers.members}
        assert told == {each.name: None if each is leader else holder for each in controllers.members}
        leader.kill()
        followers = [each for each in controllers.members if each is not leader]
        wait_for(partial(agree, followers), "so do those that are left, before one of them leads", within_s=5)


def test_a_leader_that_can_keep_no_memory_decides_all_the_same(scene: Scene) -> None:
    chat.deploy(scene.cluster, scene.namespace)
    member = chat.member(scene.cluster, scene.namespace, scene.folder)
    (scene.folder / f"{member.name}-state").write_text("no directory")
    with running(member):
        scene.cluster.apply([chat.autoscaler(mode="Scale", minReplicas=2)], namespace=scene.namespace)
        wait_for(lambda: scene.replicas() == 2, f"it scales; see {member.log}")
    assert "no memory is kept" in member.log.read_text()
