"""Real processes: spawned, found again, ended with all that they started."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from adapters.local.command import free_port
from adapters.local.os_processes import MARK_VARIABLE, OsProcesses
from adapters.local.process import Launch, Liveness, ProcessId, SpawnError
from tests.local.real import SERVER, get, nothing_left_of, processes, processes_of, wait_for


@pytest.fixture
def owner() -> Iterator[str]:
    name = uuid4().hex
    with nothing_left_of(name):
        yield name


@pytest.fixture
def table(owner: str) -> Iterator[OsProcesses]:
    table = processes(owner)
    yield table
    table.release()


def launch(folder: Path, *argv: str, cwd: str | None = None, env: tuple[tuple[str, str], ...] = ()) -> Launch:
    return Launch(name="chat-v-1", argv=argv, env=env, cwd=cwd, log=folder / "logs" / "chat-v-1.log", record="{}")


def server(folder: Path, port: int, *options: str, env: tuple[tuple[str, str], ...] = ()) -> Launch:
    return launch(folder, sys.executable, "-S", str(SERVER), "--port", str(port), *options, env=env)


def listens(log: Path) -> bool:
    return log.exists() and "listening" in log.read_text()


def test_output_goes_to_the_log_and_is_appended_to(tmp_path: Path, owner: str, table: OsProcesses) -> None:
    for number in (1, 2):
        process = table.spawn(launch(tmp_path, "/bin/sh", "-c", f"echo out {number}; echo err {number} >&2; exit 7"))
        wait_for(lambda: table.status(process, "chat-v-1").liveness is Liveness.GONE, "its end")  # noqa: B023
    log = tmp_path / "logs" / "chat-v-1.log"
    assert log.read_text().splitlines() == ["out 1", "err 1", "out 2", "err 2"]
    assert log.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -9 $$", -9)])
def test_how_it_ended_is_known(tmp_path: Path, owner: str, table: OsProcesses, script: str, code: int) -> None:
    process = table.spawn(launch(tmp_path, "/bin/sh", "-c", script))
    codes: list[int | None] = []

    def ended() -> bool:
        status = table.status(process, "chat-v-1")
        codes.append(status.exit_code)
        return status.liveness is Liveness.GONE

    wait_for(ended, "its end")
    assert codes[-1] == code


@pytest.mark.parametrize(
    ("argv", "cwd", "message"),
    [
        pytest.param(("no-such-engine", "--port"), None, "command not found: no-such-engine", id="not found"),
        pytest.param((__file__,), None, f"not executable: {__file__}", id="not executable"),
        pytest.param(("/bin/true",), "/no/such/folder", "working directory /no/such/folder does not exist", id="cwd"),
        pytest.param(("/bin/true", "a\0b"), None, "/bin/true can't be started", id="null byte"),
    ],
)
def test_what_can_not_be_started_says_why(
    tmp_path: Path, owner: str, argv: tuple[str, ...], cwd: str | None, message: str
) -> None:
    with pytest.raises(SpawnError, match=message):
        processes(owner).spawn(launch(tmp_path, *argv, cwd=cwd))


def test_a_log_that_can_not_be_opened_says_why(tmp_path: Path, owner: str) -> None:
    (tmp_path / "logs").write_text("a file where the folder should be")
    with pytest.raises(SpawnError, match=r"log file .*chat-v-1.log can't be opened"):
        processes(owner).spawn(launch(tmp_path, "/bin/true"))


def test_a_replica_inherits_the_environment_but_no_descriptor(tmp_path: Path, owner: str) -> None:
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(lock, True)  # the worst case
    fcntl.flock(lock, fcntl.LOCK_EX)
    table = OsProcesses(owner=owner, environ={**os.environ, "COLOR": "blue", "SIZE": "small"})
    port = free_port(())
    process = table.spawn(server(tmp_path, port, env=(("SIZE", "large"),)))
    wait_for(lambda: listens(tmp_path / "logs" / "chat-v-1.log"), "the server")
    assert get(f"http://127.0.0.1:{port}/environ/COLOR") == "blue"
    assert get(f"http://127.0.0.1:{port}/environ/SIZE") == "large"
    assert get(f"http://127.0.0.1:{port}/environ/{MARK_VARIABLE}") == f"{owner}/chat-v-1"
    os.close(lock)
    again = os.open(tmp_path / "lock", os.O_RDWR)
    fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(again)
    table.kill(process, "chat-v-1")
    wait_for(lambda: table.status(process, "chat-v-1").liveness is Liveness.GONE, "its end")


def test_term_lets_it_finish_and_kill_does_not(tmp_path: Path, owner: str, table: OsProcesses) -> None:
    obedient = table.spawn(server(tmp_path, free_port(())))
    wait_for(lambda: listens(tmp_path / "logs" / "chat-v-1.log"), "the server")
    table.terminate(obedient)
    wait_for(lambda: table.status(obedient, "chat-v-1").liveness is Liveness.GONE, "its end")
    log = tmp_path / "logs" / "chat-v-1.log"
    log.unlink()
    stubborn = table.spawn(server(tmp_path, free_port(()), "--ignore-term"))
    wait_for(lambda: listens(log), "the server")
    table.terminate(stubborn)
    assert table.status(stubborn, "chat-v-1").liveness is Liveness.RUNNING
    table.kill(stubborn, "chat-v-1")
    wait_for(lambda: table.status(stubborn, "chat-v-1").liveness is Liveness.GONE, "its end")


@pytest.mark.parametrize("adopted", [False, True])
@pytest.mark.parametrize("kind", ["--worker", "--stray"])
def test_workers_do_not_outlive_their_server(
    tmp_path: Path, owner: str, table: OsProcesses, *, kind: str, adopted: bool
) -> None:
    """A crashed engine's workers hold the memory of its GPU."""
    process = table.spawn(server(tmp_path, free_port(()), kind))
    wait_for(lambda: len(processes_of(owner)) == 2, "the server and its worker")
    (worker,) = set(processes_of(owner)) - {process.pid}
    os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: table.status(process, "chat-v-1").liveness is Liveness.LEFTOVERS, "the server's end")
    watching = processes(owner) if adopted else table
    assert watching.status(process, "chat-v-1").liveness is Liveness.LEFTOVERS
    (left,) = watching.marked()
    assert left.process.pid == worker
    assert left.whole is (kind == "--stray")
    watching.kill(process, "chat-v-1")
    wait_for(lambda: watching.status(process, "chat-v-1").liveness is Liveness.GONE, "the worker's end")
    assert processes_of(owner) == {}


def test_killing_reaches_workers_inside_and_outside_of_the_group(
    tmp_path: Path, owner: str, table: OsProcesses
) -> None:
    process = table.spawn(server(tmp_path, free_port(()), "--worker", "--stray", "--ignore-term"))
    wait_for(lambda: len(processes_of(owner)) == 3, "the server and its two workers")
    table.kill(process, "chat-v-1")
    wait_for(lambda: table.status(process, "chat-v-1").liveness is Liveness.GONE, "the end of all")
    assert processes_of(owner) == {}


def test_a_spawned_process_is_found_by_its_mark(tmp_path: Path, owner: str, table: OsProcesses) -> None:
    process = table.spawn(server(tmp_path, free_port(()), "--worker", "--stray"))
    wait_for(lambda: len(processes_of(owner)) == 3, "the server and its two workers")
    (found,) = processes(owner).marked()
    assert (found.name, found.process, found.record, found.whole) == ("chat-v-1", process, "{}", True)
    assert processes(uuid4().hex).marked() == []


def test_a_process_number_that_was_given_to_another_is_not_the_replica(table: OsProcesses) -> None:
    with subprocess.Popen(
        [sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    ) as other:
        mistaken = ProcessId(pid=other.pid, birth="1")
        assert table.status(mistaken, "chat-v-1").liveness is Liveness.GONE
        table.terminate(mistaken)
        table.kill(mistaken, "chat-v-1")
        assert other.poll() is None
        assert other.stdin is not None
        other.stdin.write(b"\n")
        other.stdin.close()
        assert other.wait() == 0


def test_a_released_replica_goes_on_and_can_be_adopted(tmp_path: Path, owner: str, table: OsProcesses) -> None:
    process = table.spawn(server(tmp_path, free_port(())))
    table.release()
    another = processes(owner)
    assert another.status(process, "chat-v-1").liveness is Liveness.RUNNING
    another.kill(process, "chat-v-1")
    wait_for(lambda: another.status(process, "chat-v-1").liveness is Liveness.GONE, "its end")
