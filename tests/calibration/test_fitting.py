"""What the coefficients of a known engine are recovered to, and how well they predict other loads of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml

from autoscaler.config.loading import load_text
from autoscaler.domain.capacity import StepTime
from loadtests.calibration.coefficients import NO_OVERHEAD, Coefficients, Overhead
from loadtests.calibration.driving import Driven
from loadtests.calibration.figures import measured
from loadtests.calibration.fitting import CalibrationError, fitted
from loadtests.calibration.replaying import predicted
from loadtests.calibration.steady import SteadyLoad, parse_load
from loadtests.calibration.view import as_yaml
from tests.calibration.engines import SHAPE, an_engine, driven

# Much as a small model on one processor core, with a server in front that takes its time.
SMALL = StepTime(c_s=5e-3, d_s=0.3e-3, e_s=0.3e-6, a_s=60e-6)
SERVED = Overhead(fixed_s=8e-3, per_running_s=0.5e-3)
# As the shipped profile of an 8B model on an H100: these loads are light to it, and its steps hardly differ.
GPU = StepTime(c_s=6.39e-3, d_s=10.5e-6, e_s=41e-9, a_s=24e-6)

ENGINES = [
    pytest.param(SMALL, SERVED, id="a small model on a core"),
    pytest.param(SMALL, NO_OVERHEAD, id="nothing beside its steps"),
    pytest.param(dataclasses.replace(SMALL, a_s=20e-6), SERVED, id="quick prefill"),
    pytest.param(dataclasses.replace(SMALL, d_s=0.05e-3, e_s=2e-6), SERVED, id="contexts weigh most"),
    pytest.param(GPU, SERVED, id="a GPU"),
]


def to_fit() -> list[SteadyLoad]:
    """One of long prompts, one of long outputs that keeps many sequences running."""
    return [
        parse_load("4:500~0.2/100~0.3", turn_s=12.0, seed=1),
        parse_load("5:60~0.5/250~0.3", turn_s=12.0, seed=2),
    ]


def to_predict() -> list[SteadyLoad]:
    """Of other lengths and rates; the last is past saturation of the small one."""
    return [
        parse_load("3:150~0.6/120~0.6", turn_s=12.0, seed=3),
        parse_load("6:200~0.4/80~0.6", turn_s=12.0, seed=4),
        parse_load("20:150~0.6/120~0.6", turn_s=8.0, seed=5),
    ]


def driven_to_fit(truth: Coefficients) -> list[list[Driven]]:
    return [driven(load, truth, turns=2, at_s=1000.0 * number) for number, load in enumerate(to_fit(), 1)]


def fitted_to(runs: list[list[Driven]]) -> Coefficients:
    return fitted(runs, max_num_seqs=SHAPE.max_num_seqs, chunk_tokens=SHAPE.chunk_tokens)


@pytest.mark.parametrize(("step", "overhead"), ENGINES)
def test_other_loads_of_a_known_engine_are_predicted(step: StepTime, overhead: Overhead) -> None:
    """Loads of other lengths and rates, past saturation too, within half of what is allowed on a real engine."""
    truth = an_engine(step, overhead)
    found = fitted_to(driven_to_fit(truth))
    assert found.shape == SHAPE
    for load in to_predict():
        (turn,) = driven(load, truth, turns=1, at_s=1000.0)
        seen, told = measured(turn.records), predicted(turn.arrivals, found)
        assert told.itl_s == pytest.approx(seen.itl_s, rel=0.05), load.label
        assert told.ttft_s == pytest.approx(seen.ttft_s, rel=0.075), load.label
        assert told.throughput_tps == pytest.approx(seen.throughput_tps, rel=0.05), load.label


def test_the_terms_of_a_known_engine_are_recovered() -> None:
    found = fitted_to(driven_to_fit(an_engine(SMALL, SERVED)))
    assert found.step.c_s == pytest.approx(SMALL.c_s, rel=0.05)
    assert found.step.d_s == pytest.approx(SMALL.d_s, rel=0.1)
    assert found.step.a_s == pytest.approx(SMALL.a_s, rel=0.1)
    assert found.overhead.fixed_s == pytest.approx(SERVED.fixed_s, rel=0.2)


def test_a_saturated_engine_is_told_from_a_quick_one() -> None:
    """The same load: one engine keeps up with it, the other does not, and the prediction says so."""
    quick, slow = (fitted_to(driven_to_fit(an_engine(step))) for step in (dataclasses.replace(SMALL, c_s=2e-3), SMALL))
    flood = to_predict()[-1].turn(0)
    assert predicted(flood, slow).ttft_s > 2 * predicted(flood, quick).ttft_s


def test_one_load_alone_tells_no_step_time() -> None:
    light = parse_load("0.5:20/60", turn_s=12.0, seed=1)
    with pytest.raises(CalibrationError, match="no step time could be fitted"):
        fitted_to([driven(light, an_engine(SMALL), turns=1, at_s=1000.0)])


def test_a_page_that_was_never_read_is_told() -> None:
    blind = [[dataclasses.replace(turn, readings=()) for turn in turns] for turns in driven_to_fit(an_engine(SMALL))]
    with pytest.raises(CalibrationError, match="page could not be read"):
        fitted_to(blind)


def test_the_keys_that_are_printed_are_a_configuration() -> None:
    """What is printed, pasted into a service, is read as the same step time and limits."""
    told = an_engine(SMALL)
    service = {"name": "calibrated", "slo": {"ttft": "2s"}, "command": "serve --port {port}"}
    text = yaml.safe_dump({"services": [{**service, **yaml.safe_load(as_yaml(told))}]})
    (read,) = load_text(text.encode(), source="printed", folder=Path()).settings.settled(()).services
    (variant,) = read.variants
    assert (variant.step_time, variant.max_num_seqs, variant.kv_tokens) == (SMALL, 16, 200_000)
