"""Replica processes of this machine's operating system."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from adapters.local.process import Launch, Liveness, Marked, ProcessId, SpawnError, Status

MARK_VARIABLE = "GPU_AUTOSCALER_REPLICA"
RECORD_VARIABLE = "GPU_AUTOSCALER_RECORD"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """One process at one moment. ``parent`` and ``session`` are process numbers."""

    birth: str
    parent: int
    session: int
    zombie: bool


def _look(pid: int) -> _Look | None:
    """None where there is no such process (or none that we may see)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self/stat").exists() else _look_elsewhere(pid)
    # The name in brackets may hold anything; the numbered fields of proc(5) follow the last bracket, the third first.
    fields = text[text.rindex(b")") + 2 :].split()
    # Start time in ticks since boot: the same for every reader, and untouched when the system clock is stepped.
    return _Look(
        birth=fields[19].decode(),
        parent=int(fields[1]),
        session=int(fields[3]),
        zombie=fields[0] in (b"Z", b"X"),
    )


def _look_elsewhere(pid: int) -> _Look | None:
    """As ``_look``, on systems without a /proc."""
    try:
        process = psutil.Process(pid)
        return _Look(
            birth=f"{process.create_time():.2f}",
            parent=process.ppid(),
            session=os.getsid(pid),
            zombie=process.status() == psutil.STATUS_ZOMBIE,
        )
    except (psutil.Error, OSError):
        return None


def _environ(pid: int) -> Mapping[str, str]:
    try:
        return psutil.Process(pid).environ()
    except (psutil.Error, OSError):
        return {}


class OsProcesses:
    """Spawns each replica as leader of a session of its own and finds it again by an environment variable.

    ``owner``: tells our replicas from those of other state directories. ``environ``: what replicas inherit.
    """

    def __init__(self, *, owner: str, environ: Mapping[str, str]) -> None:
        self._owner = owner
        self._environ = dict(environ)
        self._children: dict[ProcessId, subprocess.Popen[bytes]] = {}
        self._exit_codes: dict[ProcessId, int] = {}
        self._seen_alive: set[ProcessId] = set()

    def spawn(self, launch: Launch) -> ProcessId:
        """Start it with no input, all output in its log file, and no descriptor of ours. Raises SpawnError."""
        if launch.cwd is not None and not Path(launch.cwd).is_dir():
            raise SpawnError(f"working directory {launch.cwd} does not exist")
        environ = {
            **self._environ,
            # setproctitle (vLLM uses it) would otherwise write over the variables that the mark is read from.
            "SPT_NOENV": "1",
            **dict(launch.env),
            MARK_VARIABLE: f"{self._owner}/{launch.name}",
            RECORD_VARIABLE: launch.record,
        }
        log = _open_log(launch.log)
        try:
            child = subprocess.Popen(
                launch.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=launch.cwd,
                env=environ,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise SpawnError(f"command not found: {launch.argv[0]}") from error
        except PermissionError as error:
            raise SpawnError(f"not executable: {launch.argv[0]}") from error
        except (OSError, ValueError) as error:
            raise SpawnError(f"{launch.argv[0]} can't be started: {error}") from error
        finally:
            os.close(log)
        look = _look(child.pid)  # there even if it ended: we have not waited for it yet
        process = ProcessId(pid=child.pid, birth=look.birth if look else "")
        self._children[process] = child
        self._seen_alive.add(process)
        return process

    def status(self, process: ProcessId, name: str) -> Status:
        """What lives of it."""
        if self._lives(process):
            return Status(liveness=Liveness.RUNNING)
        exit_code = self._exit_codes.get(process)
        if any(self._family(process, name)):
            return Status(liveness=Liveness.LEFTOVERS, exit_code=exit_code)
        self._exit_codes.pop(process, None)
        self._seen_alive.discard(process)
        return Status(liveness=Liveness.GONE, exit_code=exit_code)

    def terminate(self, process: ProcessId) -> None:
        """TERM to the process group."""
        if self._lives(process):
            _signal_group(process.pid, signal.SIGTERM)

    def kill(self, process: ProcessId, name: str) -> None:
        """KILL to the process group, then to members of its session and bearers of its mark outside of the group."""
        doomed = []
        if self._lives(process):
            _signal_group(process.pid, signal.SIGKILL)
            doomed.append(process.pid)
        for pid in (*doomed, *self._family(process, name)):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def marked(self) -> Sequence[Marked]:
        """For each replica its outermost session leader, or where that has ended the oldest of its other processes.

        A worker in a session of its own whose server has ended is taken for the server. It never becomes ready, and so
        is ended when the start deadline is over.
        """
        bearers: dict[str, dict[int, tuple[_Look, str]]] = {}
        for pid in psutil.pids():
            environ = _environ(pid)
            owner, _, name = environ.get(MARK_VARIABLE, "").partition("/")
            look = _look(pid) if owner == self._owner and name and pid != os.getpid() else None
            if look is not None and not look.zombie:
                bearers.setdefault(name, {})[pid] = (look, environ.get(RECORD_VARIABLE, ""))
        found = []
        for name, family in sorted(bearers.items()):
            leaders = [pid for pid, (look, _) in family.items() if look.session == pid and look.parent not in family]
            pid = min(leaders or family, key=lambda pid: float(family[pid][0].birth))
            look, record = family[pid]
            process = ProcessId(pid=pid, birth=look.birth)
            found.append(Marked(name=name, process=process, record=record, whole=bool(leaders)))
        return found

    def release(self) -> None:
        """Let our children be; whoever adopts them watches them by their numbers."""
        for child in self._children.values():
            child.returncode = 0  # else Popen complains on deletion that the process still runs, as it shall
        self._children.clear()

    def _lives(self, process: ProcessId) -> bool:
        child = self._children.get(process)
        if child is not None:
            exit_code = child.poll()
            if exit_code is None:
                return True
            self._exit_codes[process] = exit_code
            del self._children[process]
            return False
        look = _look(process.pid)
        lives = look is not None and look.birth == process.birth and not look.zombie
        if lives:
            self._seen_alive.add(process)
        return lives

    def _family(self, process: ProcessId, name: str) -> Iterator[int]:
        """Living processes, other than the leader, that belong to the replica.

        Numbers of sessions are used again as those of processes are. So the session counts only if we saw its leader
        alive, and if the leader's number has not gone to another process, which it can't while the session exists.
        """
        leader = _look(process.pid)
        reused = leader is not None and leader.birth != process.birth
        by_session = process in self._seen_alive and not reused
        mark = f"{self._owner}/{name}"
        for pid in psutil.pids():
            if pid in (process.pid, os.getpid()):
                continue
            look = _look(pid)
            if look is None or look.zombie:
                continue
            in_session = by_session and look.session == process.pid
            if in_session or _environ(pid).get(MARK_VARIABLE) == mark:
                yield pid


def _signal_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _open_log(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SpawnError(f"log file {path} can't be opened: {error.strerror}") from error
