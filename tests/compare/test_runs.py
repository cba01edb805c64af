"""Runs, their keys, and the folder that keeps them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.codec import encode
from loadtests.compare.choice import Choice
from loadtests.compare.choosing import study_of
from loadtests.compare.executing import BackendError, execute
from loadtests.compare.records import Record, bucket_length_s, means, sums
from loadtests.compare.rounds import closer_runs, first_runs, settings_tried, surer_runs
from loadtests.compare.running import fluid_misses, perform
from loadtests.compare.standings import best_setting, standings
from loadtests.compare.store import Store, key_of
from loadtests.compare.study import RivalPolicy, Run, Study
from loadtests.rivals.roster import RIVALS, rival
from loadtests.rivals.sweep import share_in_time


def quiet(run: Run, record: Record) -> None:
    """Nobody wants to know."""


@settings(max_examples=80, deadline=None)
@given(
    arrivals=st.lists(st.integers(0, 30), min_size=1, max_size=60),
    served=st.lists(st.integers(0, 20), min_size=60, max_size=60),
    patience=st.integers(1, 4),
)
def test_misses_by_second_are_those_of_a_queue_served_step_by_step(
    arrivals: list[int], served: list[int], patience: int
) -> None:
    counts = np.array(arrivals, dtype=np.int64)
    rates = np.array(served[: len(arrivals)], dtype=np.float64)
    came, went = [0.0], [0.0]
    for arriving, rate in zip(arrivals, rates, strict=True):
        came.append(came[-1] + arriving)
        went.append(min(came[-1], went[-1] + rate))
    missed = fluid_misses(counts, rates, patience_s=patience)
    share = share_in_time(np.array(came), np.array(went), patience=patience)
    assert missed.sum() == pytest.approx((1 - share) * counts.sum(), abs=1e-6)
    assert (missed <= counts + 1e-9).all()


def test_the_same_run_gives_the_same_record(study: Study) -> None:
    for run in [each for each in first_runs(study) if each.seed == 0][:3]:
        first, again = perform(run), perform(run)
        assert encode(dataclasses.replace(first, took_s=0.0)) == encode(dataclasses.replace(again, took_s=0.0))
        assert 0 <= first.missed <= first.requests
        assert first.buckets.missed.sum() == pytest.approx(first.missed, abs=1e-6 * first.requests + 1e-6)


def test_a_fast_run_of_a_rival_costs_what_its_replicas_do(study: Study) -> None:
    run = Run(case=study.cases[0], policy=RivalPolicy(label="static peak", knob=1.0), seed=0)
    record = perform(run)
    replicas = record.buckets.ready[-1]
    assert record.gpu_hours <= replicas * record.hours + 1e-9
    assert record.gpu_hours >= 0.9 * replicas * record.hours


def test_every_part_of_a_run_changes_its_key(study: Study) -> None:
    run = first_runs(study)[1]
    case = run.case
    assert isinstance(run.policy, RivalPolicy)
    others = [
        dataclasses.replace(run, seed=run.seed + 1),
        dataclasses.replace(run, policy=dataclasses.replace(run.policy, knob=0.123)),
        dataclasses.replace(run, policy=study.ours[0]),
        *(
            dataclasses.replace(run, case=changed)
            for changed in (
                dataclasses.replace(case, boot_s=31.0),
                dataclasses.replace(case, capacity_rps=case.capacity_rps * 1.01),
                dataclasses.replace(case, workload=case.workload.scaled(1.01)),
                dataclasses.replace(case, metric_lag_s=0.0),
                dataclasses.replace(case, bounds=dataclasses.replace(case.bounds, max_replicas=9)),
            )
        ),
    ]
    keys = {key_of(run), *map(key_of, others)}
    assert len(keys) == 1 + len(others)


def test_an_equal_study_finds_its_runs_again(study: Study, choice: Choice, tmp_path: Path) -> None:
    store = Store(tmp_path)
    runs = [each for each in first_runs(study) if isinstance(each.policy, RivalPolicy)]
    records = execute(runs, store=store, jobs=1, backend="loky", told=quiet)
    anew = [each for each in first_runs(study_of(choice)) if isinstance(each.policy, RivalPolicy)]
    assert [store.get(run) is not None for run in anew] == [True] * len(anew)
    begun = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    broken, *_ = begun
    broken.write_bytes(b"{")
    again = execute(anew, store=store, jobs=1, backend="loky", told=quiet)
    changed = [file for file in tmp_path.iterdir() if file.stat().st_mtime_ns != begun[file]]
    assert changed == [broken]
    assert [each.gpu_hours for each in again] == [each.gpu_hours for each in records]


def test_cores_do_not_change_results(study: Study, tmp_path: Path) -> None:
    runs = [each for each in first_runs(study) if isinstance(each.policy, RivalPolicy)][:4]
    alone = execute(runs, store=Store(tmp_path / "one"), jobs=1, backend="loky", told=quiet)
    spread = execute(runs, store=Store(tmp_path / "two"), jobs=2, backend="loky", told=quiet)
    assert [(each.gpu_hours, each.missed) for each in alone] == [(each.gpu_hours, each.missed) for each in spread]


def test_the_ray_backend_runs_or_says_what_it_needs(study: Study, tmp_path: Path) -> None:
    runs = [each for each in first_runs(study) if isinstance(each.policy, RivalPolicy)][:2]
    try:
        import ray  # noqa: PLC0415, F401
    except ImportError:
        with pytest.raises(BackendError, match="pip install ray"):
            execute(runs, store=Store(tmp_path), jobs=2, backend="ray", told=quiet)
        return
    assert len(execute(runs, store=Store(tmp_path), jobs=2, backend="ray", told=quiet)) == 2


@pytest.mark.parametrize("count", [1, 3, 7, 100])
def test_settings_include_the_default_and_both_ends(count: int) -> None:
    for contender in RIVALS:
        values = settings_tried(contender.name, count)
        assert contender.knob.default in values
        assert len(values) == len(set(values)) <= max(count, len(contender.knob.values) + 1)
        if 2 < count < len(contender.knob.values):
            assert len(values) == count
            assert {contender.knob.values[0], contender.knob.values[-1]} <= set(values)


def test_the_neighbourhood_of_the_best_setting_is_searched(study: Study, tmp_path: Path) -> None:
    runs = [each for each in first_runs(study) if each.policy.label == "static peak"]
    records = execute(runs, store=Store(tmp_path), jobs=1, backend="loky", told=quiet)
    closer = {each.policy.knob for each in closer_runs(study, records) if isinstance(each.policy, RivalPolicy)}
    tried = sorted({record.knob for record in records if record.knob is not None})
    best = min((each for each in records if each.share_in_slo >= study.target), key=lambda each: each.gpu_hours).knob
    assert best is not None
    at = tried.index(best)
    assert closer == {(best + other) / 2 for other in tried[max(0, at - 1) : at] + tried[at + 1 : at + 2]}


def test_buckets_cover_the_run() -> None:
    values = np.arange(10.0)
    assert sums(values, 4).tolist() == [6, 22, 17]
    assert means(values, 4).tolist() == [1.5, 5.5, 8.5]
    assert bucket_length_s(600.0, step_s=15.0) == 15
    assert bucket_length_s(7 * 86400.0, step_s=15.0) == 840


def test_the_best_setting_is_searched_on_one_seed_and_judged_on_all(study: Study, tmp_path: Path) -> None:
    first, second = study.seeds
    default = rival("static peak").knob.default
    runs = [each for each in first_runs(study) if each.policy.label == "static peak"]
    assert {_knob(each) for each in runs if each.seed == second} == {default}
    records = execute(runs, store=Store(tmp_path), jobs=1, backend="loky", told=quiet)
    surer = [each for each in surer_runs(study, records) if each.policy.label == "static peak"]
    assert {each.seed for each in surer} == {second}
    records += execute(surer, store=Store(tmp_path), jobs=1, backend="loky", told=quiet)
    stood = standings(records)
    best = best_setting(stood, target=study.target)
    assert best is not None
    assert best.seeds == len(study.seeds)
    assert best.attains(study.target)
    alone = best_setting(standings(each for each in records if each.seed == first), target=study.target)
    assert alone is not None
    assert alone.knob in {_knob(each) for each in surer} | {default}
    assert not [each for each in surer_runs(study, records) if each.policy.label == "static peak"]


def _knob(run: Run) -> float:
    assert isinstance(run.policy, RivalPolicy)
    return run.policy.knob
