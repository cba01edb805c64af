"""What the pages say is there: every link leads somewhere, every command exists with the options that are named."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
import typer
import yaml
from typer.core import TyperCommand, TyperGroup

from autoscaler.cli import app
from tests.docs.pages import ROOT, Page, anchor_of


def _options_of(command: object, *path: str) -> dict[tuple[str, ...], set[str]]:
    """The options of each command, by the words that call it."""
    if isinstance(command, TyperGroup):
        found: dict[tuple[str, ...], set[str]] = {path: {"--help"}}
        for name, inner in command.commands.items():
            found |= _options_of(inner, *path, name)
        return found
    assert isinstance(command, TyperCommand)
    return {path: {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help"}}


COMMANDS = _options_of(typer.main.get_command(app))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
VALUES = yaml.safe_load((ROOT / "charts/gpu-autoscaler/values.yaml").read_text(encoding="utf-8"))
_LISTED = subprocess.run(("git", "ls-files", "-z", "*.md"), cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
PAGES = [
    pytest.param(Page(Path(name)), id=name) for name in _LISTED.decode().split("\0") if name and (ROOT / name).is_file()
]


def broken_link(page: Page, target: str) -> bool:
    """Whether a link within the project leads nowhere."""
    if re.match(r"^[a-z]+:", target):
        return False
    path, _, anchor = target.partition("#")
    there = (ROOT / page.path.parent / path).resolve() if path else ROOT / page.path
    if not there.exists():
        return True
    return bool(anchor) and there.suffix == ".md" and anchor not in Page(there.relative_to(ROOT)).anchors()


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: Page) -> None:
    assert [target for target in page.links() if broken_link(page, target)] == []


def wrong(call: list[str]) -> str | None:
    """What is wrong with a call, None where nothing is."""
    program, *words = call
    if program == "gpu-autoscaler":
        return _wrong_command(words)
    if program == "make":
        unknown = [word for word in words if re.fullmatch(r"[a-z-]+", word) and word not in TARGETS]
        return f"no target {unknown}" if unknown else None
    if program == "python":
        module = words[words.index("-m") + 1] if "-m" in words else None
        return None if module is None or find_spec(module) is not None else f"no module {module}"
    settings = [after for word, after in pairwise(words) if word == "--set"]
    unknown = [each for each in settings if not _is_value(each.partition("=")[0])]
    return f"no values {unknown}" if unknown else None


def _wrong_command(words: list[str]) -> str | None:
    path: tuple[str, ...] = ()
    while words and (*path, words[0]) in COMMANDS:
        path, words = (*path, words[0]), words[1:]
    is_group = any(each[: len(path)] == path and each != path for each in COMMANDS)
    if is_group and words and words[0] != "..." and not words[0].startswith("-"):
        return f"no command {words[0]}"
    unknown = [word for word in words if re.match(r"^--?[a-z]", word) and word.partition("=")[0] not in COMMANDS[path]]
    return f"{' '.join(path)} has no {unknown}" if unknown else None


def _is_value(key: str) -> bool:
    here: object = VALUES
    for part in key.split("."):
        if not isinstance(here, Mapping) or part not in here:
            return False
        here = here[part]
    return True


@pytest.mark.parametrize("page", PAGES)
def test_commands_exist(page: Page) -> None:
    assert [(call, problem) for call in page.commands() if (problem := wrong(call)) is not None] == []


def test_commands_are_found() -> None:
    calls = Page(Path("docs/kubernetes.md")).commands()
    assert ["gpu-autoscaler", "manifests", "hpa", "chat"] in calls
    assert any(call[:2] == ["helm", "install"] and "mode=Scale" in call for call in calls)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("gpu-autoscaler dance", id="command"),
        pytest.param("gpu-autoscaler manifests vpa chat", id="command of a group"),
        pytest.param("gpu-autoscaler run --fast", id="option"),
        pytest.param("make coffee", id="target"),
        pytest.param("python -m benchmarks.nothing", id="module"),
        pytest.param("helm install x y --set mood=Scale", id="value"),
        pytest.param("helm install x y --set api.prot=1", id="value within another"),
    ],
)
def test_what_does_not_exist_is_noticed(call: str) -> None:
    assert wrong(call.split()) is not None


@pytest.mark.parametrize(
    ("title", "anchor"),
    [
        ("Through an HPA", "through-an-hpa"),
        ("spec.variants[].stepTime", "specvariantssteptime"),
        ("HPA, KEDA, VPA", "hpa-keda-vpa"),
        ("Certificates: what rotates when", "certificates-what-rotates-when"),
    ],
)
def test_anchors_are_those_of_github(title: str, anchor: str) -> None:
    assert anchor_of(title) == anchor
