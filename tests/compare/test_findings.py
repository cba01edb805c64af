"""What a comparison says: honest about ties, losses and broken promises."""

from __future__ import annotations

import dataclasses
import re

import pytest

from loadtests.compare.findings import CaseFindings, case_findings, pick, shown
from loadtests.compare.standings import Standing
from loadtests.compare.study import RivalPolicy

DEFAULTS = {"static peak": 1.0, "HPA, request rate": 0.8}
BASELINE = RivalPolicy(label="HPA, request rate", knob=0.8)


def stood(policy: str, hours: float, share: float, knob: float | None = None, case: str = "week") -> Standing:
    return Standing(
        case=case,
        policy=policy,
        knob=knob,
        seeds=1,
        share_in_slo=share,
        worst_share=share,
        gpu_hours=hours,
        bound_hours=100.0,
        ratio=hours / 100,
        least_ratio=hours / 100,
        most_ratio=hours / 100,
        changes_per_hour=5.0,
        ttft_p99_s=None,
    )


def found(*others: Standing, ours: tuple[float, float] = (110, 0.992), case: str = "week") -> CaseFindings:
    return case_findings(
        [stood("ours", *ours, case=case), *others],
        case=case,
        bound_name="B60",
        target=0.99,
        baseline=BASELINE,
        defaults=DEFAULTS,
    )


HPA = stood("HPA, request rate", 130, 0.999, 0.8)
STATIC = stood("static peak", 200, 1.0, 1.0)


@pytest.mark.parametrize(
    ("best", "note"),
    [
        (stood("HPA, request rate", 110.5, 0.99, 0.95), "a tie, at the setting .*: HPA, request rate \\(0.95\\)"),
        (
            stood("HPA, request rate", 99, 0.99, 0.95),
            "rate \\(0.95\\) is cheaper by 10.0%.*after the fact",
        ),
        (stood("HPA, request rate", 121, 0.99, 0.95), "nearest rival is HPA, request rate \\(0.95\\), 10.0% dearer"),
        (stood("HPA, request rate", 50, 0.95, 0.95), "nearest rival is HPA, request rate \\(0.8\\), 18.2% dearer"),
    ],
    ids=["a tie", "a loss", "a win", "cheap but broken"],
)
def test_the_nearest_rival_is_told(best: Standing, note: str) -> None:
    notes = "\n".join(found(HPA, STATIC, best).notes)
    assert re.search(note, notes)


def test_a_broken_promise_of_ours_is_told_and_is_no_win() -> None:
    notes = "\n".join(found(HPA, STATIC, ours=(90, 0.97)).notes)
    assert "missed the promise by 2.00 points" in notes


def test_the_spread_of_several_seeds_is_told_and_of_one_is_not() -> None:
    ours = stood("ours", 110, 0.992)
    spread = dataclasses.replace(ours, seeds=3, least_ratio=1.05, most_ratio=1.17, worst_share=0.989)
    asked = {"case": "week", "bound_name": "B60", "target": 0.99, "baseline": BASELINE, "defaults": DEFAULTS}
    told = case_findings([spread, HPA, STATIC], **asked).notes  # type: ignore[arg-type]
    assert "Single seeds: 1.050 to 1.170 times the bound, at least 98.90% in SLO." in told
    assert not any("Single seeds" in note for note in found(HPA, STATIC).notes)


def test_rivals_that_never_keep_the_promise_are_named() -> None:
    broken = dataclasses.replace(HPA, share_in_slo=0.9)
    assert "did these keep the promise: HPA, request rate." in "\n".join(found(broken, STATIC).notes)


def test_the_pick_is_the_cheapest_of_ours_that_keeps_the_promise_everywhere() -> None:
    first = found(HPA, STATIC, stood("ours a=1", 100, 0.995), stood("ours a=2", 90, 0.98))
    second = found(
        dataclasses.replace(HPA, case="day"),
        dataclasses.replace(STATIC, case="day"),
        stood("ours a=1", 105, 0.995, case="day"),
        stood("ours a=2", 90, 0.995, case="day"),
        case="day",
    )
    chosen = pick([first, second], target=0.99)
    assert chosen.policy == "ours a=1"
    assert chosen.kept
    assert chosen.saving == pytest.approx(1 - 205 / 260)
    assert "saves 21.2% of the GPU-hours" in " ".join(chosen.words)
    assert "a=1" in chosen.words[0]


def test_without_any_that_keeps_it_the_one_that_misses_least_is_picked() -> None:
    chosen = pick([found(HPA, STATIC, stood("ours a=1", 140, 0.98), ours=(90, 0.97))], target=0.99)
    assert chosen.policy == "ours a=1"
    assert not chosen.kept
    assert "costs 7.7% more GPU-hours" in " ".join(chosen.words)
    assert "No setting tried keeps" in " ".join(chosen.words)


def test_a_saving_of_less_than_a_tie_is_called_the_same() -> None:
    near = dataclasses.replace(HPA, gpu_hours=100.5)
    assert "it costs the same within 1%" in " ".join(pick([found(near, STATIC, ours=(100, 0.995))], target=0.99).words)


def test_a_baseline_that_breaks_the_promise_is_said_to() -> None:
    broken = dataclasses.replace(HPA, share_in_slo=0.9)
    assert "does not keep the promise" in " ".join(pick([found(broken, STATIC)], target=0.99).words)


def test_settings_are_shown() -> None:
    assert shown(HPA) == "HPA, request rate (0.8)"
    assert shown(stood("ours", 1, 1)) == "ours"
