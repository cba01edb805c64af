"""The state directory and its file: who may use them, and what becomes of them when they are damaged."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adapters.local.database import FILE_NAME, Database, StateLostError
from adapters.local.state_directory import StateDirectory
from autoscaler.ports import RefusedError

_HOLDER = """
import sys, time
from pathlib import Path
from adapters.local.state_directory import StateDirectory
state = StateDirectory(Path(sys.argv[1]), now_s=lambda: 0.0)
print("held", flush=True)
time.sleep(600)
"""


def now_s() -> float:
    return 1_700_000_000.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB; needs the right to mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)), check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no right to mount: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(("umount", str(folder)), check=True)


def test_it_is_made_for_this_user_alone(path: Path) -> None:
    state = StateDirectory(path, now_s=now_s)
    assert path.stat().st_mode & 0o777 == 0o700
    assert (path / FILE_NAME).exists()
    assert state.database.notices == []
    state.close()


def test_the_second_controller_is_refused_and_told_who_is_the_first(path: Path) -> None:
    first = StateDirectory(path, now_s=now_s)
    with pytest.raises(RefusedError, match=rf"in use by the controller with process number {os.getpid()}$"):
        StateDirectory(path, now_s=now_s)
    first.close()
    StateDirectory(path, now_s=now_s).close()


def test_the_lock_goes_with_its_process(path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", _HOLDER, str(path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(RefusedError, match=f"process number {holder.pid}"):
            StateDirectory(path, now_s=now_s)
        holder.send_signal(signal.SIGKILL)
    StateDirectory(path, now_s=now_s).close()


def test_a_replica_that_a_killed_controller_was_starting_holds_the_lock_for_a_moment_only(path: Path) -> None:
    StateDirectory(path, now_s=now_s).close()
    with subprocess.Popen(("/bin/true",)) as killed:
        killed.wait()
    lock = os.open(path / "controller.lock", os.O_RDWR)
    os.pwrite(lock, f"{killed.pid}\n".encode(), 0)
    fcntl.flock(lock, fcntl.LOCK_EX)
    runs_its_command = threading.Timer(0.1, lambda: os.close(lock))
    runs_its_command.start()
    StateDirectory(path, now_s=now_s).close()
    runs_its_command.join()


def test_its_mark_is_its_place(path: Path, tmp_path: Path) -> None:
    first = StateDirectory(path, now_s=now_s)
    link = tmp_path / "link"
    link.symlink_to(path)
    first.close()
    same = StateDirectory(link, now_s=now_s)
    other = StateDirectory(tmp_path / "other", now_s=now_s)
    assert first.owner == same.owner != other.owner
    same.close()
    other.close()


def _is_a_file(path: Path) -> None:
    path.write_text("")


def _is_below_a_file(path: Path) -> None:
    path.parent.rmdir()
    path.parent.write_text("")


def _has_a_folder_for_a_database(path: Path) -> None:
    (path / FILE_NAME).mkdir(parents=True)


@pytest.mark.parametrize("spoil", [_is_a_file, _is_below_a_file, _has_a_folder_for_a_database])
def test_one_that_can_not_be_used_is_refused_by_name(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    path = tmp_path / "parent" / "state"
    path.parent.mkdir()
    spoil(path)
    for _ in range(2):  # the lock was not left behind
        with pytest.raises(RefusedError, match=str(path)):
            StateDirectory(path, now_s=now_s)


def test_a_read_only_directory_is_refused_by_name(small_disk: Path) -> None:
    subprocess.run(("mount", "-o", "remount,ro", str(small_disk)), check=True)
    with pytest.raises(RefusedError, match=f"{small_disk}.*Read-only file system"):
        StateDirectory(small_disk, now_s=now_s)


def test_a_read_only_directory_with_a_state_of_old_is_refused_by_name(small_disk: Path) -> None:
    StateDirectory(small_disk, now_s=now_s).close()
    subprocess.run(("mount", "-o", "remount,ro", str(small_disk)), check=True)
    with pytest.raises(RefusedError, match=f"{small_disk}.*Read-only file system"):
        StateDirectory(small_disk, now_s=now_s)


def test_a_full_disk_at_the_start_is_refused_by_name(small_disk: Path) -> None:
    with (small_disk / "filler").open("wb") as filler, pytest.raises(OSError, match="No space left"):
        filler.write(b"x" * 300_000)
    with pytest.raises(RefusedError, match=rf"{small_disk}/state.sqlite: .*full"):
        StateDirectory(small_disk, now_s=now_s)


def test_a_disk_that_fills_up_refuses_writes_until_there_is_room(small_disk: Path) -> None:
    state = StateDirectory(small_disk, now_s=now_s)
    with (small_disk / "filler").open("wb") as filler, pytest.raises(OSError, match="No space left"):
        filler.write(b"x" * 300_000)
    insert = "INSERT INTO ticks VALUES (?, 0, zeroblob(9000))"
    with pytest.raises(RefusedError, match="full"):
        state.database.write([(insert, (1,)), (insert, (2,))])
    assert state.database.read("SELECT count(*) FROM ticks") == [(0,)]
    (small_disk / "filler").unlink()
    state.database.write([(insert, (1,))])
    assert state.database.read("SELECT count(*) FROM ticks") == [(1,)]
    state.close()


def _garbage(path: Path) -> None:
    path.write_bytes(os.urandom(20_000))


def _damaged(path: Path) -> None:
    with path.open("r+b") as file:
        for offset in range(4096, path.stat().st_size, 4096):
            file.seek(offset)
            file.write(b"\xff" * 1024)


def _cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("spoil", [_garbage, _damaged, _cut_short])
def test_an_unreadable_file_is_kept_aside_and_said(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    path = tmp_path / FILE_NAME
    for number in (1, 2):
        database = Database(path, now_s=now_s)
        database.write([("REPLACE INTO targets VALUES ('chat', 'v', ?)", (number,))])
        database.close()
        spoil(path)
        spoilt = path.read_bytes()
        fresh = Database(path, now_s=now_s)
        assert fresh.read("SELECT * FROM targets") == []
        kept = tmp_path / ("state.sqlite.corrupt-20231114T221320Z" + ("-2" if number == 2 else ""))
        assert kept.read_bytes() == spoilt
        (notice,) = fresh.notices
        assert kept.name in notice
        assert str(path) in notice
        fresh.close()


def test_an_unreadable_file_that_can_not_be_set_aside_is_refused(small_disk: Path) -> None:
    (small_disk / FILE_NAME).write_bytes(b"no database " * 500)
    subprocess.run(("mount", "-o", "remount,ro", str(small_disk)), check=True)
    with pytest.raises(RefusedError, match=r"can't be read .* and not be set aside"):
        Database(small_disk / FILE_NAME, now_s=now_s)


def test_a_file_that_becomes_unreadable_is_replaced_and_the_loss_is_told(tmp_path: Path) -> None:
    database = Database(tmp_path / FILE_NAME, now_s=now_s)
    database.write([("REPLACE INTO targets VALUES ('chat', 'v', 3)", ())])
    database.read("PRAGMA wal_checkpoint(TRUNCATE)")
    _garbage(tmp_path / FILE_NAME)
    database.read("PRAGMA shrink_memory")
    with pytest.raises(StateLostError, match="started afresh"):
        database.read("SELECT * FROM targets")
    assert database.generation == 1
    assert database.read("SELECT * FROM targets") == []
    database.close()


def test_a_file_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    database = Database(tmp_path / FILE_NAME, now_s=now_s)
    database.read("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(RefusedError, match="later version"):
        Database(tmp_path / FILE_NAME, now_s=now_s)
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_a_failed_write_changes_nothing(tmp_path: Path) -> None:
    database = Database(tmp_path / FILE_NAME, now_s=now_s)
    put = "INSERT INTO targets VALUES (?, 'v', 1)"
    database.write([(put, ("chat",))])
    with pytest.raises(Exception, match="UNIQUE"):
        database.write([(put, ("code",)), (put, ("chat",))])
    assert database.read("SELECT service FROM targets") == [("chat",)]
    database.close()
