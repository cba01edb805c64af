"""``python -m loadtests.calibration --url URL --served-model NAME``: the coefficients of an engine that runs there."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rich.console import Console

from loadtests.calibration.calibrating import calibrate
from loadtests.calibration.driving import Engine
from loadtests.calibration.fitting import CalibrationError
from loadtests.calibration.steady import parse_load
from loadtests.calibration.view import as_yaml, comparison_table, told
from loadtests.client import Target


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Status 2 with a message where no coefficients can be told."""
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.calibration",
        description="Loads an engine that nobody else uses, fits its step time, and says how well a simulation of it "
        "predicts what its client sees. Prints the keys for your configuration.",
    )
    parser.add_argument("--url", required=True, help="such as http://127.0.0.1:8000")
    parser.add_argument("--metrics-url", default=None, help="its page; URL/metrics if not given")
    parser.add_argument("--served-model", required=True, help="model name in the requests")
    parser.add_argument(
        "--fit",
        action="append",
        required=True,
        metavar="RPS:PROMPT/OUTPUT",
        help="a load to fit to, such as 5:500~0.2/100~0.3 (MEAN~CV tokens); give two: one of long prompts, and one of "
        "long outputs that keeps many sequences running",
    )
    parser.add_argument(
        "--predict", action="append", default=[], metavar="RPS:PROMPT/OUTPUT", help="a load to predict; any number"
    )
    parser.add_argument("--max-num-seqs", type=int, required=True, help="as the engine was started with")
    parser.add_argument("--max-num-batched-tokens", type=int, default=2048, help="as the engine was started with")
    parser.add_argument("--turns", type=int, default=3, help="the loads take turns, so many each")
    parser.add_argument("--turn-s", type=float, default=20.0, help="how long requests are sent in a turn")
    parser.add_argument("--drain-s", type=float, default=60.0, help="wait so long for a turn's last answers")
    parser.add_argument("--timeout-s", type=float, default=120.0, help="a longer request is unfinished")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    if given.turns < 1:
        parser.error(f"--turns must be at least 1, got {given.turns}")
    console, error_console = Console(), Console(stderr=True)
    try:
        words = [*given.fit, *given.predict]
        loads = [parse_load(word, turn_s=given.turn_s, seed=given.seed + index) for index, word in enumerate(words)]
        target = Target(url=given.url, model=given.served_model, timeout_s=given.timeout_s)
        calibration = calibrate(
            loads[: len(given.fit)],
            loads[len(given.fit) :],
            engine=Engine(
                target=target,
                metrics_url=given.metrics_url or f"{given.url.rstrip('/')}/metrics",
                drain_s=given.drain_s,
            ),
            turns=given.turns,
            max_num_seqs=given.max_num_seqs,
            chunk_tokens=given.max_num_batched_tokens,
            tell=lambda text: error_console.print(text, style="dim"),
        )
    except CalibrationError as error:
        error_console.print(str(error), style="red", highlight=False)
        return 2
    except ValueError as error:
        parser.error(str(error))
    error_console.print(comparison_table(calibration))
    error_console.print(told(calibration.coefficients))
    console.print(as_yaml(calibration.coefficients), end="", markup=False, highlight=False)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
