"""The command-line options of a load."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from autoscaler.domain.service import Slo
from loadtests.client import Target
from loadtests.digest import shipped, to_json
from loadtests.options import add_load_options, arrivals_of, head_of, target_of


def given(*flags: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_load_options(parser)
    return parser.parse_args(flags)


def test_trace_defaults_to_all_of_it_at_its_own_speed() -> None:
    arrivals = arrivals_of(given("--trace", "azure2023_code"))
    digest = shipped("azure2023_code")
    assert arrivals.duration_s == digest.duration_s
    assert len(arrivals) == sum(digest.arrivals)


def test_trace_may_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    file.write_text(to_json(shipped("azure2023_conv")))
    flags = ("--from-s", "600", "--until-s", "1200", "--duration-s", "60", "--requests", "90")
    from_file = arrivals_of(given("--trace", str(file), *flags))
    assert from_file.at_s.tolist() == arrivals_of(given("--trace", "azure2023_conv", *flags)).at_s.tolist()


def test_formula_takes_its_own_lengths() -> None:
    arrivals = arrivals_of(given("--formula", "steps:5x20", "--prompt-tokens", "30", "--output-tokens", "7"))
    assert set(arrivals.prompt_tokens.tolist()) == {30}
    assert set(arrivals.output_tokens.tolist()) == {7}
    assert arrivals.duration_s == 20


def test_target_and_objective() -> None:
    options = given("--formula", "steps:1x1", "--served-model", "m", "--chat", "--slo-ttft", "1", "--slo-itl", "0.2")
    target = target_of(options, url="http://127.0.0.1:1")
    assert isinstance(target, Target)
    assert (target.model, target.chat, target.path) == ("m", True, "/v1/chat/completions")
    assert head_of(options, target, arrivals_of(options)).slo == Slo(ttft_s=1.0, itl_s=0.2)


def test_inferences_have_no_tokens_and_so_no_promise_of_them() -> None:
    options = given("--formula", "steps:1x1", "--served-model", "m", "--triton", "--slo-e2e", "3")
    target = target_of(options, url="http://127.0.0.1:1")
    assert target.path == "/v2/models/m/infer"
    assert head_of(options, target, arrivals_of(options)).slo == Slo(e2e_s=3.0)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        pytest.param((), "either --trace or --formula", id="no load"),
        pytest.param(("--trace", "azure2023_conv", "--formula", "steps:1x1"), "either", id="both"),
        pytest.param(("--trace", "azure2025"), "azure2023_conv", id="unknown trace"),
        pytest.param(("--trace", "azure2023_conv", "--from-s", "7"), "multiples of 10 s", id="off the intervals"),
        pytest.param(("--formula", "steps:1x1", "--prompt-tokens", "x"), "MEAN~CV", id="no length"),
        pytest.param(("--formula", "steps:1x1", "--dispersion", "0"), "dispersion", id="no dispersion"),
    ],
)
def test_bad_load_is_named(flags: tuple[str, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        arrivals_of(given(*flags))


def test_impossible_objective_is_named() -> None:
    options = given("--formula", "steps:1x1", "--slo-ttft", "0")
    with pytest.raises(ValueError, match="thresholds must be positive"):
        head_of(options, target_of(options, url="http://127.0.0.1:1"), arrivals_of(options))
