"""docs/reports.md has each of the 92 public reports once, with tests that exist or a reason for none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.named_tests import NAMED, missing
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
ROWS = [
    tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
    for line in PAGE.splitlines()
    if re.match(r"\| \d+ \|", line)
]


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
    assert missing(row[3]) == []
    named = NAMED.findall(row[3])
    assert bool(named) != row[2].startswith("does not concern us: ")
    assert re.sub(NAMED, "", row[3]).strip(", ") == ("" if named else "-")


def test_what_does_not_exist_is_noticed() -> None:
    here = str(Path(__file__).relative_to(ROOT))
    assert missing(f"`{here}::test_what_does_not_exist_is_noticed`") == []
    for gone in (
        "tests/docs/none.py::test_a",
        f"{here}::test_none",
        f"{here}::test_there_are_92_and_each_once[a case]",
    ):
        assert len(missing(f"`{gone}`")) == 1
