"""docs/reports.md has each of the 92 public reports once, with tests that exist or a reason for none."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
ROWS = [
    tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
    for line in PAGE.splitlines()
    if re.match(r"\| \d+ \|", line)
]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)(?:\[([^`]*)\])?`")


@cache
def cases_of(path: str) -> dict[str, set[str]]:
    """Each test of a file, with the texts in its decorators and in the file's own tables: names of its cases."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = [each for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    tables = _texts([each for each in tree.body if isinstance(each, ast.Assign | ast.AnnAssign)])
    return {each.name: _texts(each.decorator_list) | tables for each in functions if each.name.startswith("test_")}


def _texts(nodes: list[ast.Assign | ast.AnnAssign] | list[ast.expr]) -> set[str]:
    return {
        part.value
        for node in nodes
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    }


def missing(path: str, test: str, case: str) -> str | None:
    """What of a test's name does not exist, None where all does."""
    if not (ROOT / path).is_file():
        return path
    tests = cases_of(path)
    if test not in tests:
        return f"{path}::{test}"
    return None if not case or case in tests[test] else f"{path}::{test}[{case}]"


def test_there_are_92_and_each_once() -> None:
    assert [int(row[0]) for row in ROWS] == list(range(1, 93))
    assert {len(row) for row in ROWS} == {4}
    reports = [text for row in ROWS for text in _reports(row[1])]
    assert len(reports) > 200
    assert sorted({each for each in reports if reports.count(each) > 1}) == []


def _reports(cell: str) -> list[str]:
    """``repository#number`` of each; a number alone is of the repository before it."""
    found, repository = [], ""
    for name, number in re.findall(r"([\w./-]*)#(\d+)", cell):
        repository = name or repository
        found.append(f"{repository}#{number}")
    return found


@pytest.mark.parametrize("row", [pytest.param(row, id=row[0]) for row in ROWS])
def test_a_report_has_tests_that_exist_or_a_reason_for_none(row: tuple[str, str, str, str]) -> None:
    named = NAMED.findall(row[3])
    assert [gone for path, test, case in named if (gone := missing(path, test, case)) is not None] == []
    assert bool(named) != row[2].startswith("does not concern us: ")
    assert re.sub(NAMED, "", row[3]).strip(", ") == ("" if named else "-")


def test_what_does_not_exist_is_noticed() -> None:
    here = str(Path(__file__).relative_to(ROOT))
    assert missing(here, "test_what_does_not_exist_is_noticed", "") is None
    assert missing("tests/docs/none.py", "test_a", "") == "tests/docs/none.py"
    assert missing(here, "test_none", "") is not None
    assert missing(here, "test_there_are_92_and_each_once", "a case") is not None
