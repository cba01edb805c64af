"""Rules of the code that no linter knows. Each test names every offender."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PACKAGES = ("autoscaler", "predictors", "adapters", "loadtests", "benchmarks")
MAX_LINES = 350
VAGUE_NAMES = {"utils.py", "util.py", "helpers.py", "helper.py", "common.py", "manager.py", "misc.py", "base.py"}

WALL_CLOCK = {"time.time", "time.time_ns", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.date.today"}
STOP_WATCH = {"time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.perf_counter_ns", "time.sleep"}


def _python(tracked: tuple[Path, ...], root: Path, *packages: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in tracked:
        if path.suffix == ".py" and path.parts[0] in packages:
            yield path, ast.parse((root / path).read_text(encoding="utf-8"))


def names_used(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every dotted name that a module uses, as ``module.attribute`` whatever it is called here, with its line."""
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                top = each.name.split(".")[0]
                aliases[each.asname or top] = each.name if each.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            aliases |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    for node in ast.walk(tree):
        dotted = _dotted(node)
        first, _, rest = dotted.partition(".")
        if first in aliases:
            yield getattr(node, "lineno", 0), f"{aliases[first]}.{rest}" if rest else aliases[first]


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = _dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


@pytest.mark.parametrize(
    ("source", "name"),
    [
        pytest.param("import time\ntime.time()", "time.time", id="plain"),
        pytest.param("import time as t\nt.time()", "time.time", id="renamed module"),
        pytest.param("from time import time as now\nnow()", "time.time", id="renamed function"),
        pytest.param("from datetime import datetime\ndatetime.now()", "datetime.datetime.now", id="class"),
        pytest.param("import datetime\ndatetime.datetime.now()", "datetime.datetime.now", id="module and class"),
        pytest.param("import time\nclock = time.time", "time.time", id="handed over"),
    ],
)
def test_names_are_found_whatever_they_are_called(source: str, name: str) -> None:
    assert name in {found for _, found in names_used(ast.parse(source))}


def _reads_no_wall_clock(path: Path) -> bool:
    """The controller's time is the Clock's; the gateway is a process of its own, and load is measured outside."""
    elsewhere = path.parts[0] in ("loadtests", "benchmarks") or path.name.startswith("gateway_")
    return not elsewhere and path != Path("adapters/wallclock.py")


def _owns_no_stop_watch(path: Path) -> bool:
    return path.parts[0] in ("autoscaler", "predictors")


@pytest.mark.parametrize(
    ("names", "applies"),
    [
        pytest.param(WALL_CLOCK, _reads_no_wall_clock, id="wall clock"),
        pytest.param(STOP_WATCH, _owns_no_stop_watch, id="stop watch"),
    ],
)
def test_time_is_asked_of_the_clock_alone(
    tracked: tuple[Path, ...], root: Path, names: set[str], applies: Callable[[Path], bool]
) -> None:
    offenders = [
        f"{path}:{line}: {name}"
        for path, tree in _python(tracked, root, *PACKAGES)
        if applies(path)
        for line, name in names_used(tree)
        if name in names
    ]
    assert offenders == []


def test_files_can_be_read_at_one_sitting(tracked: tuple[Path, ...], root: Path) -> None:
    lengths = {
        path: len((root / path).read_text(encoding="utf-8").splitlines())
        for path, _ in _python(tracked, root, *PACKAGES)
    }
    assert {str(path): lines for path, lines in lengths.items() if lines > MAX_LINES} == {}


def test_every_module_says_what_it_is_for(tracked: tuple[Path, ...], root: Path) -> None:
    silent = [str(path) for path, tree in _python(tracked, root, *PACKAGES, "tests") if not ast.get_docstring(tree)]
    assert silent == []


def test_every_package_has_an_init(tracked: tuple[Path, ...], root: Path) -> None:
    folders = {path.parent for path, _ in _python(tracked, root, "autoscaler", "predictors", "adapters", "loadtests")}
    assert {str(folder) for folder in folders if folder / "__init__.py" not in tracked} == set()


def test_no_file_has_a_name_that_says_nothing(tracked: tuple[Path, ...]) -> None:
    assert [str(path) for path in tracked if path.name in VAGUE_NAMES] == []


def test_domain_values_are_frozen_and_keep_to_their_fields(tracked: tuple[Path, ...], root: Path) -> None:
    offenders = []
    for path, tree in _python(tracked, root, "autoscaler"):
        if path.parts[1] != "domain":
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef) or not node.decorator_list:
                continue
            options = {
                option.arg: getattr(option.value, "value", None)
                for decorator in node.decorator_list
                if isinstance(decorator, ast.Call) and _dotted(decorator.func) == "dataclass"
                for option in decorator.keywords
            }
            if not (options.get("frozen") and options.get("slots")):
                offenders.append(f"{path}:{node.lineno}: {node.name}")
    assert offenders == []
