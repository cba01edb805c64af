"""The whole thing on this machine: requests through the gateway, deaths by kill -9, adoption, scale to zero."""

from __future__ import annotations

import sqlite3

import psutil

from autoscaler.domain.cluster import Phase
from autoscaler.domain.plan import Reason
from tests.e2e.local_stack import Load, LocalStack, ask, until


def targets(stack: LocalStack, since_s: float) -> list[int]:
    return [part.desired for part in stack.decisions(since_s)]


def test_overload_starts_replicas_and_quiet_stops_them_and_no_request_is_lost(stack: LocalStack) -> None:
    stack.configure()
    stack.start()
    stack.until_ready(1)
    with Load(stack.gateway_port, rps=18) as load:
        stack.until_ready(3)
    assert load.failed() == []
    until(lambda: stack.latest().desired == 1, what="back to one", within_s=120)
    until(lambda: len(stack.engines()) == 1, what="two replicas drained and gone")
    assert stack.stop_controller() == 0
    until(lambda: stack.processes() == [], what="a clean exit stops everything")


def test_scale_to_zero_and_back_loses_no_request(stack: LocalStack) -> None:
    stack.configure(
        stack.service(minReplicas=0, idle={"after": "3s", "minUptimeFactor": 0.1}),
    )
    stack.start()
    until(lambda: stack.latest().desired == 0, what="idle from the start: no replica")
    with Load(stack.gateway_port, rps=5) as load:
        stack.until_ready(1)
    assert load.failed() == []
    until(lambda: stack.latest().desired == 0 and stack.engines() == [], what="zero again", within_s=150)
    assert ask(stack.gateway_port).status == 200


def test_a_killed_replica_costs_only_its_own_requests_and_is_replaced(stack: LocalStack) -> None:
    stack.configure(stack.service(minReplicas=2))
    stack.start()
    stack.until_ready(2)
    with Load(stack.gateway_port, rps=4) as load:
        until(lambda: len(load.answers) > 8, what="answers")
        victim = stack.engines()[0]
        began = len(load.answers)
        victim.kill()
        until(lambda: stack.latest().ready < 2 or len(load.answers) > began + 4, what="the death is seen")
        stack.until_ready(2)
    # it ran at most its four sequences
    assert len(load.failed()) <= 4
    assert min(targets(stack, 0.0)[3:]) >= 2


def test_a_killed_controller_loses_no_request_and_the_next_adopts_the_fleet(stack: LocalStack) -> None:
    stack.configure(stack.service(minReplicas=2))
    stack.start()
    stack.until_ready(2)
    before = {engine.pid for engine in stack.engines()}
    with Load(stack.gateway_port, rps=4) as load:
        until(lambda: len(load.answers) > 4, what="answers")
        stack.kill_controller()
        asked = len(load.answers)
        until(lambda: len(load.answers) > asked + 8, what="answers without a controller")
        since_s = stack.latest().at_s
        stack.start()
        stack.until_ready(2)
        until(lambda: len(stack.decisions(since_s)) > 10, what="ten decisions of the new controller")
    assert load.failed() == []
    assert {engine.pid for engine in stack.engines()} == before
    assert min(targets(stack, since_s)) >= 2


def test_both_killed_at_once_leaves_neither_orphans_nor_doubles(stack: LocalStack) -> None:
    stack.configure(stack.service(minReplicas=2))
    stack.start()
    stack.until_ready(2)
    survivor, victim = stack.engines()
    with Load(stack.gateway_port, rps=4) as load:
        until(lambda: len(load.answers) > 4, what="answers")
        stack.kill_controller()
        victim.kill()
        since_s = stack.latest().at_s
        stack.start()
        stack.until_ready(2)
        until(lambda: len(stack.decisions(since_s)) > 10, what="ten decisions of the new controller")
    assert len(load.failed()) <= 4
    assert survivor.pid in {engine.pid for engine in stack.engines()}
    assert len(stack.engines()) == 2
    assert min(targets(stack, since_s)) >= 2


def test_a_second_controller_on_the_same_state_directory_is_refused(stack: LocalStack) -> None:
    stack.configure()
    stack.start()
    first = stack.controller
    assert first is not None
    stack.start(wait=False)
    second = stack.controller
    assert second is not None
    assert second.wait(timeout=30) == 2
    assert str(first.pid) in stack.log().splitlines()[-1]
    stack.controller = first
    assert stack.is_ready()


def test_a_corrupt_state_file_is_kept_aside_and_nothing_shrinks(stack: LocalStack) -> None:
    stack.configure(stack.service(minReplicas=1, behavior={"scaleDown": {"stabilizationWindowSeconds": 300}}))
    stack.start()
    with Load(stack.gateway_port, rps=14):
        stack.until_ready(2)
    before = {engine.pid for engine in stack.engines()}
    stack.kill_controller()
    (stack.state_dir / "state.sqlite").write_bytes(b"not a database at all" * 1000)
    for rest in stack.state_dir.glob("state.sqlite-*"):
        rest.unlink()
    stack.start()
    stack.until_ready(len(before))
    assert {engine.pid for engine in stack.engines()} == before
    assert list(stack.state_dir.glob("state.sqlite.corrupt-*"))
    assert "corrupt" in stack.log()
    assert stack.latest().desired >= len(before)


def test_a_command_that_is_not_there_is_told_and_retried_and_harms_nobody_else(stack: LocalStack) -> None:
    lost = {**stack.service("lost"), "command": ["/no/such/engine", "--port", "{port}"]}
    stack.configure(stack.service(), lost)
    stack.start()
    stack.until_ready(1)
    until(lambda: stack.replicas("lost", Phase.FAILED) != [], what="the failed start is told")
    assert "/no/such/engine" in stack.replicas("lost", Phase.FAILED)[0].detail
    assert ask(stack.gateway_port, model="chat").status == 200


def test_a_changed_configuration_counts_at_once_and_a_broken_one_is_refused(stack: LocalStack) -> None:
    stack.configure()
    stack.start()
    stack.until_ready(1)
    good = stack.config.read_text()
    stack.config.write_text(good.replace("maxReplicas: 4", "maxReplicas: four"))
    until(lambda: "maxReplicas" in stack.log() and "refused" in stack.log(), what="the refusal is told")
    stack.config.write_text(good.replace("maxReplicas: 4", "maxReplicas: 4\n  minReplicas: 2"))
    stack.until_ready(2)


def test_two_models_share_one_gpu_and_the_idle_one_makes_room(stack: LocalStack) -> None:
    pair = [
        stack.service(name, minReplicas=0, idle={"after": "1h", "minUptimeFactor": 0.0}, devices={"count": 1})
        for name in ("chat", "code")
    ]
    stack.configure(*pair, inventory={"devices": [{"id": "0"}]})
    stack.start()
    assert ask(stack.gateway_port, model="chat").status == 200
    stack.until_ready(1, "chat")
    until(lambda: stack.latest("chat").stages[0].reason is Reason.IDLE, what="chat is idle", within_s=90)
    assert ask(stack.gateway_port, model="code").status == 200
    assert stack.replicas("chat") == []
    (engine,) = stack.engines()
    assert engine.environ()["CUDA_VISIBLE_DEVICES"] == "0"
    assert ask(stack.gateway_port, model="nobody").status == 404


def test_the_gateway_comes_back_when_it_is_killed(stack: LocalStack) -> None:
    stack.configure()
    stack.start()
    stack.until_ready(1)
    (gateway,) = [each for each in stack.processes() if "adapters.local.gateway" in " ".join(each.cmdline())]
    gateway.kill()
    until(lambda: ask(stack.gateway_port).status == 200, what="the gateway answers again")
    assert psutil.pid_exists(stack.engines()[0].pid)


def test_a_dry_run_looks_on_and_changes_nothing(stack: LocalStack) -> None:
    stack.configure(stack.service(minReplicas=2))
    stack.start()
    stack.until_ready(2)
    before = {process.pid for process in stack.processes()}
    watcher = stack.run("run", "--dry-run")
    until(lambda: "chat" in stack.said(watcher), what="the dry run tells a decision")
    watcher.terminate()
    assert watcher.wait(timeout=20) == 0
    assert {process.pid for process in stack.processes()} == before
    assert ask(stack.gateway_port).status == 200


def test_prompts_never_reach_a_log_or_the_state(stack: LocalStack) -> None:
    stack.configure()
    stack.start()
    stack.until_ready(1)
    assert ask(stack.gateway_port).status == 200
    stack.stop_controller()
    written = b"".join(path.read_bytes() for path in stack.folder.rglob("*") if path.is_file())
    assert b"one two three" not in written
    with sqlite3.connect(stack.state_dir / "state.sqlite") as database:
        assert database.execute("SELECT count(*) FROM decisions").fetchone()[0] > 0
