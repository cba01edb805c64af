"""The container file copies what there is, installs what is locked, and ends as nobody without tools."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.charts.rendering import CHART

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its name and what follows it; ``stage`` counts FROMs from 0, -1 before the first."""

    stage: int
    name: str
    value: str


def instructions() -> list[Instruction]:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    found, stage = [], -1
    for line in text.splitlines():
        if not line.strip():
            continue
        name, _, value = line.strip().partition(" ")
        stage += name == "FROM"
        found.append(Instruction(stage, name, value.strip()))
    return found


def of(name: str, *, stage: int) -> list[str]:
    return [each.value for each in instructions() if (each.name, each.stage) == (name, stage)]


@pytest.fixture(scope="module")
def tracked() -> set[str]:
    """Files that a fresh clone has."""
    listed = subprocess.run(("git", "ls-files"), cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return set(listed.splitlines())


def test_what_is_copied_is_in_a_clone_and_not_ignored(tracked: set[str]) -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines
    let_in = {line[1:] for line in lines if line.startswith("!")}
    copied = {word for value in of("COPY", stage=0) for word in value.split()[:-1]}
    assert copied == let_in
    for name in copied:
        assert name in tracked or any(file.startswith(f"{name}/") for file in tracked), name


def test_all_packages_are_copied() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    packages = {pattern.rstrip("*") for pattern in settings["packages"]["find"]["include"]}
    assert packages <= {word for value in of("COPY", stage=0) for word in value.split()}


def test_only_what_is_locked_is_installed() -> None:
    fetching, installing = (shlex.split(value) for value in of("RUN", stage=0))
    assert {"download", "--require-hashes", "constraints.txt"} <= set(fetching)
    assert {"install", "--no-index", "/locked"} <= set(installing)
    assert "--without-pip" in installing


def test_the_last_stage_runs_nothing_and_is_nobody() -> None:
    assert max(each.stage for each in instructions()) == 1
    assert of("RUN", stage=1) == []
    (copied,) = of("COPY", stage=1)
    assert copied == "--from=build /opt/venv /opt/venv"
    (user,) = of("USER", stage=1)
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), "numeric, so that runAsNonRoot can be checked"
    assert user.split(":")[0] == str(yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["runAsUser"])


def test_the_program_is_the_projects_own() -> None:
    (entry,), (command,) = of("ENTRYPOINT", stage=1), of("CMD", stage=1)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert json.loads(entry)[0] in project["scripts"]
    assert json.loads(command) == ["run", "--config", "/etc/gpu-autoscaler/config.yaml"]
    labels = " ".join(of("LABEL", stage=1))
    assert all(f"org.opencontainers.image.{name}=" in labels for name in ("title", "description", "version"))
    assert f"VERSION={project['version']}" in of("ARG", stage=1)
    chart = (CHART / "Chart.yaml").read_text(encoding="utf-8")
    assert f"appVersion: {project['version']}" in chart
