"""The scorecard's page: figures of the records, every rival named, honest about what nobody keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadtests.compare import scorecard


def test_the_page_is_made_of_the_traces_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "".join(f"{minute},{40 + minute % 3}\n" for minute in range(8))
    (tmp_path / "short.csv").write_text(f"minute,rate\n{rows}")
    monkeypatch.setattr(scorecard, "TRACES", (scorecard.ScoredTrace(file="short.csv", weekly=True),))
    page = tmp_path / "page.md"
    quick = ["--seeds", "1", "--boot", "20", "--knobs", "2", "--refine", "0", "--jobs", "1"]
    scorecard.main(["--traces", str(tmp_path), *quick, "--runs", str(tmp_path / "runs"), "--page", str(page)])
    text = page.read_text()
    assert "--traces FOLDER --seeds 1 --boot 20" in text
    assert "## short, boot 20 s" in text
    assert "| **ours, shipped defaults** |" in text
    assert "Means of 1 seed." in text
    told = [line for line in text.splitlines() if line.startswith("| HPA, request rate |")]
    assert len(told) == 1


def test_a_folder_without_the_traces_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        scorecard.main(["--traces", str(tmp_path)])
    assert "lacks azure2024_week_conv_digitised.csv" in capsys.readouterr().err


def test_the_page_of_engines_tells_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "".join(f"{minute},{40 + minute % 3}\n" for minute in range(6))
    (tmp_path / "short.csv").write_text(f"minute,rate\n{rows}")
    monkeypatch.setattr(scorecard, "ENGINE_TRACES", (scorecard.EngineTrace(file="short.csv", boots_s=(20.0,)),))
    monkeypatch.setattr(scorecard, "ENGINE_RIVALS", ("static",))
    monkeypatch.setattr(scorecard, "ENGINE_PEAK_REPLICAS", 3.0)
    page = tmp_path / "page.md"
    quick = ["--engine", "--seeds", "1", "--knobs", "2", "--refine", "0", "--jobs", "1"]
    scorecard.main(["--traces", str(tmp_path), *quick, "--runs", str(tmp_path / "runs"), "--page", str(page)])
    text = page.read_text()
    assert "--traces FOLDER --engine --seeds 1" in text
    assert "times the bound B_slo" in text
    assert "## short, boot 20 s" in text
    told = [line.split(" |")[0] for line in text.splitlines() if line.startswith("| ") and "policy" not in line]
    assert told == ["| **ours**", "| static peak", "| HPA, request rate"]
