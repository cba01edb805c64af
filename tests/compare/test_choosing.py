"""What a user typed becomes a study, or an error that names the option."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml

from loadtests.compare.choice import Choice, ChoiceError
from loadtests.compare.choosing import policy_of, study_of
from loadtests.rivals.roster import RIVALS
from loadtests.workloads.recorded import RecordedRequests

CONFIG = """
services:
  - name: chat
    slo: {ttft: 2s, itl: 50ms, share: 0.95}
    command: serve --port {port}
    maxReplicas: 20
    startup: 90s
"""
ENGINE = CONFIG + "    stepTime: {c: 20ms, d: 0.1ms, e: 0.0002ms, a: 0.1ms}\n    kvTokens: 60000\n    maxNumSeqs: 64\n"


@pytest.mark.parametrize(
    ("word", "name", "knob"),
    [
        ("hpa", "HPA, request rate", 0.8),
        ("hpa:0.6", "HPA, request rate", 0.6),
        ("hpa:target=0.6", "HPA, request rate", 0.6),
        ("Knative KPA:0.5", "Knative KPA", 0.5),
        ("static", "static peak", 1.0),
    ],
)
def test_policies_are_named_as_people_say(word: str, name: str, knob: float) -> None:
    policy = policy_of(word)
    assert (policy.label, policy.knob) == (name, knob)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("hpaa", "no rival 'hpaa'.*or short: static, hpa"),
        ("hpa:x", "target, share of capacity must be a number from 0.02 to 13 .default 0.8., got 'x'"),
        ("hpa:-1", "'hpa:-1': .* from 0.02 to 13 .*got '-1'"),
        ("hpa:60", "'hpa:60': .* from 0.02 to 13 .*got '60'"),
        ("keda:threshold=0.6", "'keda:threshold=0.6': the knob of KEDA, request rate is its 'target', got 'threshold'"),
    ],
)
def test_wrong_policies_are_told(word: str, message: str) -> None:
    with pytest.raises(ChoiceError, match=message):
        policy_of(word)


def test_own_configuration_and_trace_need_nothing_else(choice: Choice, tmp_path: Path) -> None:
    config, trace = tmp_path / "mine.yaml", tmp_path / "my.csv"
    config.write_text(CONFIG)
    trace.write_text("at_s,prompt_tokens,output_tokens\n" + "".join(f"{at / 8},100,20\n" for at in range(4800)))
    plain = dataclasses.replace(
        choice, traces=(str(trace),), config=config, boots_s=(), peak_replicas=None, rivals=(), baseline="hpa"
    )
    study = study_of(plain)
    case = study.cases[0]
    assert isinstance(case.workload, RecordedRequests)
    assert case.boot_s == 90
    assert case.slo.share == 0.95
    assert case.bounds.max_replicas == 20
    assert case.capacity_rps == pytest.approx(8 / 16)
    assert set(study.rivals) == {each.name for each in RIVALS}


def test_engines_are_measured_where_the_configuration_tells_them(choice: Choice, tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text(ENGINE)
    case = study_of(dataclasses.replace(choice, config=config)).cases[0]
    assert case.engine is not None
    assert case.bound_name == "B_slo"
    assert case.slo.itl_s == pytest.approx(0.05)
    assert case.workload.peak_rps() == pytest.approx(8 * case.capacity_rps)
    within = case.engine.curve.missed(case.engine.curve.loads_rps[:1])
    assert within[0] <= 0.05
    assert case.engine.curve.shares[-1] > 0.05
    assert case.engine.drain_s == 60
    with pytest.raises(ChoiceError, match="needs the service's stepTime"):
        study_of(dataclasses.replace(choice, engine=True))


def test_replicas_of_engines_drain_for_the_configured_grace_period(choice: Choice, tmp_path: Path) -> None:
    plain, patient = tmp_path / "plain.yaml", tmp_path / "patient.yaml"
    plain.write_text(ENGINE)
    patient.write_text(ENGINE + "    gracePeriod: 10m\n")
    cases = [study_of(dataclasses.replace(choice, config=config)).cases[0] for config in (plain, patient)]
    assert [each.engine.drain_s for each in cases if each.engine is not None] == [60, 600]
    assert cases[0] != cases[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"traces": ("nowhere.csv",)}, "--trace nowhere.csv: no file"),
        ({"traces": ("steps:1x60", "steps:1x60")}, "may be given once"),
        ({"days": (3.0, 9.0)}, "--days must be FROM:TO with 0 <= FROM < TO, .*the 0.00694 days of .*, got 3:9"),
        ({"config": Path("/nowhere.yaml")}, "--config /nowhere.yaml: No such file or directory$"),
        ({"boots_s": (-5.0,)}, "--boot must be a number from 0 to 86,400, got -5"),
        ({"boots_s": (float("inf"),)}, "--boot must be a number from 0 to 86,400, got inf"),
        ({"seeds": 0}, "--seeds must be a number from 1 to 10,000, got 0"),
        ({"knob_values": 0}, "--knobs must be a number from 1 to 1,000, got 0"),
        ({"refinements": -1}, "--refine must be a number from 0 to 20, got -1"),
        ({"metric_lag_s": float("nan")}, "--metric-lag must be a number from 0 to 3,600, got nan"),
        ({"peak_replicas": 0.0}, "--peak-replicas must be a number from 0.1 to 100,000, got 0"),
        ({"capacity_rps": -2.0}, "--capacity must be a number from 1e-06 to 1e.09, got -2"),
        ({"baseline": "hpa:0"}, "--baseline: 'hpa:0': target, share of capacity must be a number from"),
        ({"rivals": ("nobody",)}, "--policy: no rival 'nobody'; there are: static peak; HPA, request rate; "),
        ({"tried": ("intervalSeconds",)}, "--try must be KEY=VALUE"),
        ({"tried": ("slo.share=0.9",)}, "the same for every policy"),
        ({"tried": ("intervalSeconds=never",)}, "intervalSeconds"),
        ({"traces": ("steps:0x600",)}, "has no requests"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_what_makes_no_study_is_told(choice: Choice, change: dict[str, object], message: str) -> None:
    with pytest.raises(ChoiceError, match=f"(?s){message}"):
        study_of(dataclasses.replace(choice, **change))  # type: ignore[arg-type]


def test_settings_to_try_change_one_key_each(choice: Choice) -> None:
    study = study_of(
        dataclasses.replace(choice, tried=("intervalSeconds=5,30", "behavior.scaleDown.stabilizationWindowSeconds=120"))
    )
    assert [each.label for each in study.ours] == [
        "ours",
        "ours intervalSeconds=5",
        "ours intervalSeconds=30",
        "ours behavior.scaleDown.stabilizationWindowSeconds=120",
    ]
    assert yaml.safe_load(study.ours[1].text)["intervalSeconds"] == 5
    service = yaml.safe_load(study.ours[3].text)["services"][0]
    assert service["behavior"] == {"scaleDown": {"stabilizationWindowSeconds": 120}}


def test_a_capacity_that_is_known_scales_the_traffic(choice: Choice) -> None:
    case = study_of(dataclasses.replace(choice, capacity_rps=4.0)).cases[0]
    assert case.capacity_rps == 4
    assert case.workload.peak_rps() == pytest.approx(32)


TWO = """\
services:
  - {name: chat, command: "serve --port {port}", slo: {ttft: 2s}, maxReplicas: 8}
  - {name: code, command: "serve --port {port}", slo: {ttft: 1s}, maxReplicas: 40}
"""


def test_of_several_services_the_named_one_is_compared(choice: Choice, tmp_path: Path) -> None:
    config = tmp_path / "two.yaml"
    config.write_text(TWO)
    study = study_of(dataclasses.replace(choice, config=config, service="code", tried=("startup=20s",)))
    assert (study.cases[0].slo.ttft_s, [each["name"] for each in yaml.safe_load(study.ours[0].text)["services"]]) == (
        1.0,
        ["code"],
    )
    assert yaml.safe_load(study.ours[1].text)["services"][0]["startup"] == "20s"


@pytest.mark.parametrize(
    ("config", "service", "message"),
    [
        pytest.param(TWO, None, "has 2 services; say which with --service: chat, code", id="none of two"),
        pytest.param(TWO, "kode", "--service must be one of chat, code of .*, got 'kode'", id="unknown"),
        pytest.param(None, "chat", "--service chat needs a --config", id="without a configuration"),
    ],
)
def test_which_service_is_asked_for(
    choice: Choice, tmp_path: Path, config: str | None, service: str | None, message: str
) -> None:
    path = None if config is None else tmp_path / "two.yaml"
    if path is not None and config is not None:
        path.write_text(config)
    with pytest.raises(ChoiceError, match=message):
        study_of(dataclasses.replace(choice, config=path, service=service))
