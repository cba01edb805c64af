"""The command as a user runs it, on a machine without a cluster."""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from autoscaler.cli import app
from autoscaler.doctor.finding import CheckId

Json = dict[str, Any]
DOCUMENT = Path(__file__).parents[2] / "docs/doctor.md"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *arguments])


def findings(result: Result) -> list[Json]:
    told: list[Json] = json.loads(result.stdout)["findings"]
    return told


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield int(listener.getsockname()[1])


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes a file for one service on this machine, with changes."""

    def to_file(*, service: Json | None = None, **changes: object) -> Path:
        engine = {"name": "chat", "slo": {"ttft": "2s"}, "command": f"{sys.executable} --port {{port}}"}
        whole = {
            "services": [{**engine, **(service or {})}],
            "stateDir": str(tmp_path / "state"),
            "gateway": {"port": 0},
            "api": {"port": 0},
            "inventory": {"devices": [{"id": "0"}]},
            **changes,
        }
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(whole))
        return path

    return to_file


def test_a_machine_that_is_well_has_no_error(write: Callable[..., Path]) -> None:
    result = run("--config", str(write()), "--output", "json")
    assert result.exit_code == 0
    told = findings(result)
    looked_at = ("configuration", "ports", "command", "state-directory", "machine-devices")
    assert {each["check"] for each in told} == set(looked_at)
    assert [each for each in told if each["severity"] == "error"] == []


def test_what_a_start_would_trip_over_is_told(write: Callable[..., Path], tmp_path: Path, taken: int) -> None:
    (tmp_path / "file").write_text("")
    path = write(
        service={"command": "there-is-no-such-program --port {port}"},
        stateDir=str(tmp_path / "file/state"),
        api={"port": taken},
    )
    result = run("--config", str(path), "--output", "json")
    assert result.exit_code == 1
    bad = {(each["check"], each["severity"]) for each in findings(result) if each["severity"] != "ok"}
    assert bad >= {("command", "error"), ("state-directory", "error"), ("ports", "warning")}


def test_a_wrong_file_is_told_as_check_tells_it(write: Callable[..., Path]) -> None:
    path = write(intervalSeconds="soon")
    result = run("--config", str(path), "--output", "json")
    assert result.exit_code == 1
    (told,) = findings(result)
    assert (told["check"], told["severity"]) == ("configuration", "error")
    checked = CliRunner().invoke(app, ["check", "--config", str(path)])
    assert told["message"] in checked.stderr
    assert told["object"] in checked.stderr


def test_a_table_has_the_errors_first(write: Callable[..., Path], taken: int) -> None:
    path = write(service={"command": "there-is-no-such-program --port {port}"}, api={"port": taken})
    result = run("--config", str(path), "--output", "table")
    assert result.exit_code == 1
    shown = result.stdout
    assert shown.index("command") < shown.index("ports") < shown.index("state-directory")
    assert "fix:" in shown
    assert "1 error, " in shown


def test_a_cluster_that_is_not_there_is_one_error(kubeconfig: Callable[[str], Path]) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        free = listener.getsockname()[1]
    result = run("--kubeconfig", str(kubeconfig(f"http://127.0.0.1:{free}")), "--output", "json")
    assert result.exit_code == 1
    assert [(each["check"], each["severity"]) for each in findings(result)] == [("api-server", "error")]


def test_the_documentation_has_a_row_for_each_check() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|", DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert rows == [str(check) for check in CheckId]
