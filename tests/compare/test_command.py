"""The command, from its options to its files."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autoscaler.cli import app

OPTIONS = (
    *("compare", "--trace", "steps:8x240,16x240", "--boot", "30", "--peak-replicas", "8"),
    *("--policy", "static", "--knobs", "2", "--jobs", "1", "--baseline", "hpa:0.7"),
)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("comparison")
    answer = CliRunner().invoke(app, [*OPTIONS, "--out", str(folder)])
    assert answer.exit_code == 0, answer.stderr
    assert json.loads(answer.stdout) == json.loads((folder / "comparison.json").read_text())
    return folder


def test_all_forms_tell_the_same(out: Path) -> None:
    rows = list(csv.DictReader((out / "runs.csv").read_text().splitlines()))
    told = json.loads((out / "comparison.json").read_text())
    standings = told["cases"][0]["standings"]
    assert {row["policy"] for row in rows} == {"ours", "static peak", "HPA, request rate"}
    assert len(standings) == len(rows)
    for row, standing in zip(rows, standings, strict=True):
        assert float(row["gpu_hours"]) == pytest.approx(standing["gpu_hours"], abs=1e-4)
        assert float(row["ratio"]) == pytest.approx(standing["gpu_hours"] / standing["bound_hours"], abs=1e-4)


def test_the_page_stands_alone_and_says_what_it_compares(out: Path) -> None:
    page = (out / "report.html").read_text()
    own = re.sub(r"(?s)<script>.*?</script>", "", page)
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", own)
    for words in (
        "How to read this",
        "Bound quoted: B60",
        "Setting of ours to take",
        "Against HPA, request rate (0.7)",
    ):
        assert words in own
    assert page.count("plotly-graph-div") >= 3


def test_a_second_time_nothing_is_run_anew(out: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in (out / "runs").iterdir()}
    answer = CliRunner().invoke(app, [*OPTIONS, "--out", str(out), "--output", "table"])
    assert answer.exit_code == 0
    assert "Setting of ours to take" in answer.stdout
    assert {file: file.stat().st_mtime_ns for file in (out / "runs").iterdir()} == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--trace", "nowhere.csv"], "--trace nowhere.csv: no file"),
        (["--trace", "steps:1x60", "--days", "x:2"], "--days must be FROM:TO"),
        (["--trace", "steps:1x60", "--baseline", "hpaa"], "--baseline: no rival 'hpaa'"),
        (["--trace", "steps:1x60", "--jobs", "0"], "--jobs must be -1 (one on each core) or at least 1, got 0"),
        (["--trace", "steps:1x60", "--boot", "-5"], "--boot must be a number from 0 to 86,400, got -5"),
    ],
)
def test_what_is_wrong_ends_with_a_message(options: list[str], message: str, tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["compare", *options, "--out", str(tmp_path)])
    assert answer.exit_code == 2
    assert message in answer.stderr


def test_a_folder_that_can_not_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answer = CliRunner().invoke(app, ["compare", "--trace", "steps:1x60", "--out", str(tmp_path / "file" / "out")])
    assert answer.exit_code == 2
    assert f"--out {tmp_path / 'file' / 'out'}: Not a directory" in answer.stderr


def test_more_traffic_than_all_replicas_bear_is_told_with_its_case_and_key(tmp_path: Path) -> None:
    engine = "command: 'serve --port {port}', stepTime: {profile: l40s/Meta-Llama-3.1-8B/tp1}"
    config = tmp_path / "mine.yaml"
    config.write_text(f"services: [{{name: chat, maxReplicas: 2, slo: {{ttft: 2s, itl: 50ms}}, {engine}}}]\n")
    few = ("--trace", "steps:30x120,40x120", "--config", str(config), "--capacity", "5", "--boot", "30", "--jobs", "1")
    answer = CliRunner().invoke(app, ["compare", *few, "--policy", "static", "--out", str(tmp_path / "out")])
    assert answer.exit_code == 2
    assert "Traceback" not in answer.output
    for words in ("steps", "maxReplicas is 2", "99.00% in SLO", "--peak-replicas"):
        assert words in answer.stderr.replace("\n", " ")
