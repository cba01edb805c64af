"""The command on an engine that is emulated in a process of its own."""

from __future__ import annotations

import pytest
import yaml

from loadtests.calibration.__main__ import main
from loadtests.emulator.process import EmulatorProcess

FLAGS = ("--step-base-ms", "10", "--step-per-seq-ms", "1", "--max-num-seqs", "16", "--kv-tokens", "50000")
LOADS = ("--fit", "3:200/40", "--fit", "8:20/80", "--turns", "1", "--turn-s", "12")


def test_an_engine_is_driven_and_its_keys_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with EmulatorProcess(*FLAGS) as engine:
        engine.await_status("/health", 200)
        assert main(["--url", engine.url, "--served-model", "emulated", "--max-num-seqs", "16", *LOADS]) == 0
    printed = capsys.readouterr()
    keys = yaml.safe_load(printed.out)
    assert set(keys) == {"stepTime", "maxNumSeqs", "kvTokens"}
    assert (keys["maxNumSeqs"], keys["kvTokens"]) == (16, 50_000)
    assert set(keys["stepTime"]) == {"c", "d", "e", "a"}
    assert printed.err.count("fitted") >= 2


def test_loads_that_tell_nothing_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with EmulatorProcess(*FLAGS) as engine:
        engine.await_status("/health", 200)
        words = ["--url", engine.url, "--served-model", "emulated", "--max-num-seqs", "16"]
        assert main([*words, "--fit", "4:20/20", "--turns", "1", "--turn-s", "3"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "no step time could be fitted" in " ".join(printed.err.split())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(["--fit", "fast"], "a load is RPS:PROMPT/OUTPUT", id="no load"),
        pytest.param(["--fit", "0:10/10"], "rps must be above 0", id="no rate"),
        pytest.param(["--fit", "1:10/10", "--turn-s", "0"], "turn_s must be above 0", id="no time"),
        pytest.param(["--fit", "1:10/10", "--turns", "0"], "--turns must be at least 1", id="no turn"),
    ],
)
def test_what_can_not_be_done_is_told(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--url", "http://127.0.0.1:9", "--served-model", "m", "--max-num-seqs", "4", *words])
    assert says in capsys.readouterr().err
