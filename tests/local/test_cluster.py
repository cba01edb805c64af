"""The whole of it with real processes: grown, shrunk, crashed, closed, adopted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError

import pytest

from adapters.local.cluster import LocalCluster
from adapters.local.lifecycle import Pace
from adapters.local.routes import DirectRoutes, Endpoint, RouteTable
from adapters.local.state_directory import StateDirectory
from adapters.local.template import ReplicaTemplate
from adapters.wallclock import WallClock
from autoscaler.domain.cluster import Device, Phase, Replica
from autoscaler.domain.plan import VariantTarget
from autoscaler.domain.service import DeviceRequest, ServiceId
from autoscaler.ports import Inventory, RefusedError, ReplicaActuator
from tests.local.real import CHAT, get, leaders_of, nothing_left_of, processes_of, serving, wait_for

ROOT = Path(__file__).parents[2]
FAST = Pace(step_s=0.02, probe_ready_s=0.1, probe_unready_s=0.05, backoff_first_s=0.1)
CODE = ServiceId("code")


@dataclass
class Switchboard:
    """A gateway's routes without the gateway; ``busy``: requests in flight by replica."""

    routes: tuple[Endpoint, ...] = ()
    busy: dict[str, int] = field(default_factory=dict)

    def set_routes(self, endpoints: Sequence[Endpoint]) -> None:
        self.routes = tuple(endpoints)

    def in_flight(self) -> Mapping[str, int]:
        return {endpoint.replica: self.busy.get(endpoint.replica, 0) for endpoint in self.routes}

    def accepting(self) -> list[str]:
        return [endpoint.url for endpoint in self.routes if endpoint.accepting]


@dataclass
class Machine:
    """This machine, one state directory and the controller of the moment."""

    path: Path
    clock: WallClock = field(default_factory=WallClock)
    open: list[tuple[LocalCluster, StateDirectory]] = field(default_factory=list)
    owner: str = ""

    def begin(
        self,
        *templates: ReplicaTemplate,
        devices: Sequence[Device] = (),
        routes: RouteTable | None = None,
        start: bool = True,
    ) -> LocalCluster:
        state = StateDirectory(self.path, now_s=self.clock.now_s)
        self.owner = state.owner
        cluster = LocalCluster(
            state=state,
            templates=templates,
            devices=devices,
            clock=self.clock,
            routes=routes or DirectRoutes(),
            environ=os.environ,
            pace=FAST,
        )
        self.open.append((cluster, state))
        if start:
            cluster.start()
        return cluster

    def end(self, *, leave_running: bool = False) -> None:
        cluster, state = self.open.pop()
        cluster.close(leave_running=leave_running)
        state.close()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path / "state")
    probe = StateDirectory(machine.path, now_s=machine.clock.now_s)
    machine.owner = probe.owner
    probe.close()
    with nothing_left_of(machine.owner):
        yield machine
        while machine.open:
            machine.end(leave_running=True)


def ask(cluster: LocalCluster, replicas: int, service: ServiceId = CHAT) -> None:
    cluster.scale(service, [VariantTarget(variant="v", replicas=replicas)])


def in_phase(cluster: LocalCluster, phase: Phase) -> list[Replica]:
    return [replica for replica in cluster.snapshot().replicas if replica.phase is phase]


def wait_ready(cluster: LocalCluster, replicas: int) -> None:
    wait_for(lambda: len(in_phase(cluster, Phase.READY)) == replicas, f"{replicas} ready replicas")


def unreachable(url: str) -> bool:
    try:
        get(url)
    except URLError:
        return True
    return False


def test_it_is_the_controllers_inventory_and_actuator(machine: Machine) -> None:
    cluster = machine.begin(serving(), start=False)
    inventory: Inventory = cluster
    actuator: ReplicaActuator = cluster
    actuator.scale(CHAT, [VariantTarget(variant="v", replicas=2)])
    (target,) = inventory.snapshot().targets
    assert (target.service, target.variant, target.replicas) == (CHAT, "v", 2)


def test_up_to_two_and_down_to_zero(machine: Machine) -> None:
    routes = Switchboard()
    cluster = machine.begin(serving(), routes=routes)
    ask(cluster, 2)
    wait_ready(cluster, 2)
    urls = routes.accepting()
    assert [get(url) for url in urls] == ["ok", "ok"]
    ask(cluster, 0)
    wait_for(lambda: not cluster.snapshot().replicas, "the end of both")
    assert all(unreachable(url) for url in urls)
    assert routes.routes == ()
    assert processes_of(machine.owner) == {}


def test_loading_is_neither_ready_nor_failed(machine: Machine) -> None:
    cluster = machine.begin(serving("--load-s", "0.7"))
    ask(cluster, 1)
    wait_for(lambda: [replica.detail for replica in in_phase(cluster, Phase.STARTING)] == ["answered 503"], "a 503")
    wait_ready(cluster, 1)
    (replica,) = cluster.snapshot().replicas
    assert replica.restarts == 0
    assert replica.ready_s is not None
    assert replica.ready_s - replica.created_s > 0.7


def test_a_crash_is_seen_and_repaired(machine: Machine) -> None:
    routes = Switchboard()
    cluster = machine.begin(serving(), routes=routes)
    ask(cluster, 1)
    wait_ready(cluster, 1)
    with pytest.raises(OSError, match="Remote end closed"):
        get(f"{routes.accepting()[0]}/crash")
    wait_for(lambda: [replica.restarts for replica in in_phase(cluster, Phase.READY)] == [1], "its return")
    assert get(routes.accepting()[0]) == "ok"


def test_requests_in_flight_are_finished_before_the_end(machine: Machine) -> None:
    routes = Switchboard()
    cluster = machine.begin(serving(), routes=routes)
    ask(cluster, 1)
    wait_ready(cluster, 1)
    (url,) = routes.accepting()
    routes.busy["chat-v-1"] = 1
    answers: list[str] = []
    client = threading.Thread(target=lambda: answers.append(get(f"{url}/slow/0.5")))
    client.start()
    ask(cluster, 0)
    wait_for(lambda: in_phase(cluster, Phase.DRAINING), "draining")
    wait_for(lambda: routes.accepting() == [], "no more requests")
    client.join()
    assert answers == ["ok"]
    assert processes_of(machine.owner)
    routes.busy.clear()
    wait_for(lambda: not processes_of(machine.owner), "its end")


def test_one_that_ignores_term_is_killed_with_its_workers(machine: Machine) -> None:
    template = serving("--ignore-term", "--worker", "--stray", grace_period_s=0.3)
    cluster = machine.begin(template, routes=Switchboard())
    ask(cluster, 1)
    wait_ready(cluster, 1)
    assert len(processes_of(machine.owner)) == 3
    ask(cluster, 0)
    wait_for(lambda: not cluster.snapshot().replicas, "its end")
    assert processes_of(machine.owner) == {}


def test_a_killed_server_frees_its_device_only_with_its_workers(machine: Machine) -> None:
    cluster = machine.begin(serving("--worker", devices=DeviceRequest(kind="gpu", count=1)), devices=[Device(id="0")])
    ask(cluster, 1)
    wait_ready(cluster, 1)
    (server,) = leaders_of(machine.owner)
    (worker,) = set(processes_of(machine.owner)) - {server}
    os.kill(server, signal.SIGKILL)
    wait_for(lambda: [replica.restarts for replica in in_phase(cluster, Phase.READY)] == [1], "its return")
    assert worker not in processes_of(machine.owner)
    assert len(processes_of(machine.owner)) == 2


def test_two_models_take_turns_on_one_gpu(machine: Machine) -> None:
    gpu = DeviceRequest(kind="gpu", count=1)
    routes = Switchboard()
    templates = [serving(devices=gpu), serving(devices=gpu, service=CODE)]
    cluster = machine.begin(*templates, devices=[Device(id="MIG-7", kind="gpu")], routes=routes)
    for idle, wanted in ((CODE, CHAT), (CHAT, CODE), (CODE, CHAT)):
        ask(cluster, 0, idle)
        ask(cluster, 1, wanted)
        wait_for(lambda: [each.service for each in in_phase(cluster, Phase.READY)] == [wanted], f"{wanted}")  # noqa: B023
        assert get(f"{routes.accepting()[0]}/environ/CUDA_VISIBLE_DEVICES") == "MIG-7"
        assert len(processes_of(machine.owner)) == 1


def test_a_command_that_does_not_exist_is_said_and_tried_again(machine: Machine) -> None:
    template = ReplicaTemplate(
        service=CHAT, variant=serving().variant, command=("no-such-engine", "{port}"), grace_period_s=1.0
    )
    cluster = machine.begin(template)
    ask(cluster, 1)
    wait_for(lambda: any(replica.restarts >= 3 for replica in cluster.snapshot().replicas), "attempts")
    (replica,) = in_phase(cluster, Phase.FAILED)
    assert "command not found: no-such-engine" in replica.detail


def test_a_clean_end_leaves_nothing_but_the_targets(machine: Machine) -> None:
    cluster = machine.begin(serving(), routes=Switchboard())
    ask(cluster, 2)
    wait_ready(cluster, 2)
    machine.end()
    assert processes_of(machine.owner) == {}
    with pytest.raises(RefusedError):
        ask(cluster, 1)
    again = machine.begin(serving(), start=False)
    assert [target.replicas for target in again.snapshot().targets] == [2]
    assert again.snapshot().replicas == ()


def test_an_end_that_is_interrupted_is_quick_and_still_clean(machine: Machine) -> None:
    class Impatient(Switchboard):
        """Somebody presses the keys again while requests are being finished."""

        presses = threading.Event()

        def in_flight(self) -> Mapping[str, int]:
            if self.presses.is_set():
                self.presses.clear()
                raise KeyboardInterrupt
            return {endpoint.replica: 1 for endpoint in self.routes}

    routes = Impatient()
    cluster = machine.begin(serving("--worker", grace_period_s=3600.0), routes=routes)
    ask(cluster, 1)
    wait_ready(cluster, 1)
    routes.presses.set()
    with pytest.raises(KeyboardInterrupt):
        machine.open[-1][0].close()
    assert processes_of(machine.owner) == {}
    machine.open.pop()[1].close()


def test_left_running_replicas_are_adopted_by_the_next_controller(machine: Machine) -> None:
    cluster = machine.begin(serving(), routes=Switchboard())
    ask(cluster, 2)
    wait_ready(cluster, 2)
    before = leaders_of(machine.owner)
    machine.end(leave_running=True)
    assert leaders_of(machine.owner) == before
    routes = Switchboard()
    again = machine.begin(serving(), routes=routes)
    assert len(in_phase(again, Phase.READY)) == 2
    wait_for(lambda: len(routes.accepting()) == 2, "routes")
    assert [get(url) for url in routes.accepting()] == ["ok", "ok"]
    assert leaders_of(machine.owner) == before
    ask(again, 0)
    wait_for(lambda: not processes_of(machine.owner), "their end")


def test_a_failing_gateway_stops_neither_watching_nor_itself_for_good(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    class Flaky(Switchboard):
        """Breaks when it is first told of a replica, and a few times more."""

        failures = 5

        def set_routes(self, endpoints: Sequence[Endpoint]) -> None:
            if endpoints and self.failures:
                self.failures -= 1
                raise RuntimeError("no such gateway")
            super().set_routes(endpoints)

    routes = Flaky()
    cluster = machine.begin(serving(), routes=routes)
    ask(cluster, 1)
    wait_for(routes.accepting, "routes in the end")
    assert routes.failures == 0
    assert caplog.text.count("a step of the supervisor failed") == 1  # said once, not five times


def test_a_changed_configuration_drains_what_is_no_longer_in_it(machine: Machine) -> None:
    cluster = machine.begin(serving(), serving(service=CODE), routes=Switchboard())
    ask(cluster, 1)
    ask(cluster, 1, CODE)
    wait_ready(cluster, 2)
    cluster.configure([serving(service=CODE)], [Device(id="0")])
    wait_for(lambda: set(leaders_of(machine.owner).values()) == {"code-v-1"}, "the end of chat")
    assert cluster.snapshot().devices == (Device(id="0"),)


# Controllers killed with -9


def run_controller(machine: Machine, replicas: int, place: str, calls: int) -> subprocess.Popen[bytes]:
    script = Path(__file__).with_name("controller_process.py")
    return subprocess.Popen(
        [sys.executable, str(script), str(machine.path), str(replicas), place, str(calls)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    )


def adopts_exactly(machine: Machine, replicas: int) -> None:
    """The next controller comes to this many replicas, all its own, and ends every one of them."""
    routes = Switchboard()
    before = leaders_of(machine.owner)
    cluster = machine.begin(serving(), routes=routes)
    wait_ready(cluster, replicas)
    after = leaders_of(machine.owner)
    assert before.items() <= after.items(), "a running replica was given up"
    assert sorted(after.values()) == [replica.name for replica in cluster.snapshot().replicas]
    assert len(after) == replicas
    # An adopted replica is ready before the first step has put the routes.
    wait_for(lambda: len(routes.accepting()) == replicas, "a route to each")
    assert [get(url) for url in routes.accepting()] == ["ok"] * replicas
    ask(cluster, 0)
    wait_for(lambda: not processes_of(machine.owner), "the end of all")
    machine.end()


@pytest.mark.parametrize(
    ("place", "calls", "left"),
    [
        pytest.param("before spawn", 1, 0, id="first intended, none spawned"),
        pytest.param("after spawn", 1, 1, id="first spawned, not recorded"),
        pytest.param("before spawn", 3, 2, id="two of three spawned, none recorded"),
        pytest.param("after spawn", 3, 3, id="all spawned, none recorded"),
        pytest.param("after keep", 2, 0, id="asked for"),
        pytest.param("after keep", 3, 0, id="intent recorded"),
        pytest.param("before keep", 4, 3, id="spawned, about to be recorded"),
        pytest.param("after keep", 4, 3, id="spawned and recorded"),
        pytest.param("after ready", 1, 3, id="ready"),
    ],
)
def test_a_controller_killed_at_any_point_orphans_and_doubles_nothing(
    machine: Machine, place: str, calls: int, left: int
) -> None:
    with run_controller(machine, 3, place, calls) as controller:
        assert controller.wait() == -signal.SIGKILL
    assert len(leaders_of(machine.owner)) == left
    adopts_exactly(machine, 3)


def test_controllers_killed_one_after_the_other_orphan_and_double_nothing(machine: Machine) -> None:
    asked = 0
    for replicas, place, calls in (
        (2, "after spawn", 1),
        (4, "before spawn", 2),
        (3, "after keep", 2),
        (5, "after spawn", 1),
    ):
        with run_controller(machine, replicas, place, calls) as controller:
            assert controller.wait() == -signal.SIGKILL
        names = list(leaders_of(machine.owner).values())
        assert len(names) == len(set(names))
        asked = replicas
    adopts_exactly_in_the_end(machine, asked)


def adopts_exactly_in_the_end(machine: Machine, replicas: int) -> None:
    cluster = machine.begin(serving(), routes=Switchboard())
    wait_ready(cluster, replicas)
    wait_for(lambda: len(leaders_of(machine.owner)) == replicas, "no more than asked for")
    machine.end()
    assert processes_of(machine.owner) == {}


@pytest.mark.parametrize("moment", [1, 2, 3])
def test_a_controller_killed_from_outside_while_starting(machine: Machine, moment: int) -> None:
    with run_controller(machine, 3, "never", 0) as controller:
        wait_for(lambda: len(leaders_of(machine.owner)) >= moment, f"{moment} replicas")
        controller.send_signal(signal.SIGKILL)
    adopts_exactly(machine, 3)


@pytest.mark.parametrize("with_replicas", [False, True])
def test_replicas_go_on_serving_without_a_controller(machine: Machine, *, with_replicas: bool) -> None:
    with run_controller(machine, 2, "never", 0) as controller:
        assert controller.stdout is not None
        assert controller.stdout.readline() == b"ready\n"
        with pytest.raises(RefusedError, match=f"process number {controller.pid}"):
            machine.begin(serving())
        controller.send_signal(signal.SIGKILL)
        controller.wait()
    assert len(leaders_of(machine.owner)) == 2
    if with_replicas:
        for pid in leaders_of(machine.owner):
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not leaders_of(machine.owner), "their end")
    adopts_exactly(machine, 2)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda path: path.unlink(), id="gone"),
        pytest.param(lambda path: path.write_bytes(b"\xff" * 30_000), id="corrupt"),
    ],
)
def test_a_lost_state_file_costs_no_replica(machine: Machine, spoil: Callable[[Path], object]) -> None:
    with run_controller(machine, 3, "after ready", 1) as controller:
        assert controller.wait() == -signal.SIGKILL
    for name in ("state.sqlite-wal", "state.sqlite-shm"):
        (machine.path / name).unlink(missing_ok=True)
    spoil(machine.path / "state.sqlite")
    cluster = machine.begin(serving(), start=False)
    assert [target.replicas for target in cluster.snapshot().targets] == [3]
    assert sum("found running without a record" in notice for notice in cluster.notices) == 3
    machine.end(leave_running=True)
    adopts_exactly(machine, 3)
