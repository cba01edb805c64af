"""A file that changes under a running controller."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from autoscaler.config import ConfigError, ConfigFile, Refused, Reloaded


@pytest.fixture
def path(write: Callable[[str], Path], service_text: str) -> Path:
    """A good file."""
    return write(service_text)


def _bounds(file: ConfigFile) -> int:
    return file.settings.services[0].bounds.max_replicas


def _in_place(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _renamed_over(path: Path, text: str) -> None:
    swap = path.with_suffix(".swp")
    swap.write_text(text, encoding="utf-8")
    swap.rename(path)


def _linked_anew(path: Path, text: str) -> None:
    """As a mounted ConfigMap does it: the file is a link through a folder that is swapped."""
    folder = path.parent / f"data-{len(list(path.parent.iterdir()))}"
    folder.mkdir()
    (folder / path.name).write_text(text, encoding="utf-8")
    link = path.parent / "new"
    link.symlink_to(folder / path.name)
    os.replace(link, path)


def _same_size_and_time(path: Path, text: str) -> None:
    before = path.stat()
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", [_in_place, _renamed_over, _linked_anew, _same_size_and_time])
def test_a_change_is_taken_up_however_it_is_made(
    path: Path, service_text: str, change: Callable[[Path, str], None]
) -> None:
    file = ConfigFile(path)
    assert file.poll() is None
    for count in (5, 6):
        change(path, service_text + f"    maxReplicas: {count}\n")
        told = file.poll()
        assert isinstance(told, Reloaded)
        assert told.settings is file.settings
        assert _bounds(file) == count
        assert file.poll() is None


def test_a_broken_file_is_refused_once_and_the_old_settings_stay(path: Path, service_text: str) -> None:
    file = ConfigFile(path)
    before = file.settings
    _in_place(path, service_text + "    maxReplicas: 0\n")
    told = file.poll()
    assert isinstance(told, Refused)
    assert "services[0].maxReplicas: must be a whole number from 1 to 10000; got 0" in told.error
    assert file.refusal == told.error
    assert file.settings is before
    assert file.poll() is None
    _in_place(path, service_text + "    maxReplicas: 0\n    spare: -1\n")
    assert isinstance(file.poll(), Refused)


@pytest.mark.parametrize("count", [10, 7])
def test_a_mended_file_is_taken_up(path: Path, service_text: str, count: int) -> None:
    file = ConfigFile(path)
    _in_place(path, ":")
    assert isinstance(file.poll(), Refused)
    _in_place(path, service_text + (f"    maxReplicas: {count}\n" if count != 10 else ""))
    assert isinstance(file.poll(), Reloaded)
    assert file.refusal is None
    assert _bounds(file) == count


def test_a_file_may_be_gone_for_a_moment(path: Path, service_text: str) -> None:
    file = ConfigFile(path)
    path.unlink()
    assert file.poll() is None
    _in_place(path, service_text)
    assert file.poll() is None


def test_a_file_that_stays_away_is_told_once_and_so_is_its_return(path: Path, service_text: str) -> None:
    file = ConfigFile(path)
    path.unlink()
    assert [type(file.poll()) for _ in range(4)] == [type(None), Refused, type(None), type(None)]
    assert _bounds(file) == 10
    _in_place(path, service_text)
    assert isinstance(file.poll(), Reloaded)


def test_what_waits_for_a_restart_is_said_and_stays_as_it_was(path: Path, service_text: str) -> None:
    file = ConfigFile(path)
    changed = service_text + "    maxReplicas: 3\ngateway: {port: 9999}\nstateDir: elsewhere\n"
    _in_place(path, changed)
    told = file.poll()
    assert isinstance(told, Reloaded)
    assert told.waiting == file.waiting == ("gateway", "stateDir")
    assert _bounds(file) == 3
    assert file.settings.gateway.port == 8080
    assert file.settings.state_dir == path.parent / "state"
    _in_place(path, changed + "intervalSeconds: 1\n")
    told = file.poll()
    assert isinstance(told, Reloaded)
    assert told.waiting == ("gateway", "stateDir")
    assert file.settings.params.interval_s == 1.0
    _in_place(path, service_text)
    told = file.poll()
    assert isinstance(told, Reloaded)
    assert told.waiting == ()


def test_a_relative_path_survives_a_change_of_folder(
    path: Path, service_text: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.chdir(path.parent)
    file = ConfigFile(path.name)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    _in_place(path, service_text + "    maxReplicas: 2\n")
    assert isinstance(file.poll(), Reloaded)
    assert file.settings.state_dir == path.parent / "state"


def test_a_broken_file_does_not_start(write: Callable[[str], Path]) -> None:
    with pytest.raises(ConfigError):
        ConfigFile(write("services: []"))
