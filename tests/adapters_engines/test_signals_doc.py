"""docs/signals.md and docs/read.md say what the tables and the report do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from adapters.engines.detection import TABLES
from adapters.engines.reading_report import report_page
from adapters.engines.signals import EngineTable
from autoscaler.domain.judgement import Judgement
from autoscaler.domain.reading import Unknown, UnknownReason
from tests.docs.named_tests import NAMED, missing

ROOT = Path(__file__).parents[2]
SIGNALS = (ROOT / "docs" / "signals.md").read_text()
READ = (ROOT / "docs" / "read.md").read_text()


@pytest.mark.parametrize("table", TABLES, ids=[table.title for table in TABLES])
def test_every_series_of_an_engine_is_in_its_section(table: EngineTable) -> None:
    section = SIGNALS.partition(f"### {table.title}\n")[2].partition("\n##")[0]
    assert f"`engine: {table.engine}`" in section
    canonical = [signal for signal in table.signals if signal.name in {"waiting", "running", "completed", "ttft"}]
    for signal in canonical:
        for alias in signal.aliases:
            assert f"`{alias.name}" in section
    assert table.arrivals_formula in section


def test_every_signal_of_the_report_is_described() -> None:
    report = report_page(Unknown(UnknownReason.EMPTY_PAGE, "nothing"))
    described = set(re.findall(r"`(\w+)`", "".join([line for line in READ.splitlines() if line.startswith("| `")])))
    assert {signal.name for signal in report.signals} <= described


def test_each_state_of_a_replica_is_in_the_table_once_with_a_test() -> None:
    section = SIGNALS.partition("## What is thought of a replica\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(row[1].strip("`") for row in rows) == sorted(Judgement)
    assert missing(section) == []
    assert all(NAMED.search(row[4]) for row in rows)
