"""Tests that pages name, as ``path::test`` or ``path::test[case]`` in backquotes: do they exist?"""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.docs.pages import ROOT

NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)(?:\[([^`]*)\])?`")


def missing(text: str) -> list[str]:
    """Of the tests that a text names those that do not exist."""
    return [gone for path, test, case in NAMED.findall(text) if (gone := _missing(path, test, case)) is not None]


def _missing(path: str, test: str, case: str) -> str | None:
    if not (ROOT / path).is_file():
        return path
    tests = _cases_of(path)
    if test not in tests:
        return f"{path}::{test}"
    return None if not case or case in tests[test] else f"{path}::{test}[{case}]"


@cache
def _cases_of(path: str) -> dict[str, set[str]]:
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
