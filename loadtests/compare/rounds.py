"""Which runs a study needs: every policy, then the neighbourhood of each rival's best setting, then all seeds of it.

A rival's best setting is searched for on the first seed alone; the best and those around it are then run on all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loadtests.compare.records import Record
from loadtests.compare.standings import Standing, best_setting, standings
from loadtests.compare.study import Case, Policy, RivalPolicy, Run, Study
from loadtests.rivals.roster import rival

# Of settings by their cost, around the one that is best on the first seed: on all seeds a dearer one may be needed.
_CHEAPER, _DEARER = 1, 2


def first_runs(study: Study) -> list[Run]:
    """Ours, the baseline and each rival's default on all seeds, and on the first seed each rival at other settings.

    Those of one traffic together.
    """
    others = [
        RivalPolicy(label=name, knob=knob) for name in study.rivals for knob in settings_tried(name, study.knob_values)
    ]
    defaults = {RivalPolicy(label=name, knob=rival(name).knob.default) for name in study.rivals} | {study.baseline}
    if study.baseline not in others:
        others.append(study.baseline)
    runs: list[Run] = []
    for case in study.cases:
        for seed in study.seeds:
            policies: list[Policy] = [*study.ours]
            policies += [each for each in others if seed == study.seeds[0] or each in defaults]
            runs += [Run(case=case, policy=policy, seed=seed) for policy in policies]
    return runs


def settings_tried(name: str, count: int) -> tuple[float, ...]:
    """The default of a rival's knob and others spread over its range, ``count`` in all, from the cheapest on."""
    knob = rival(name).knob
    places = np.unique(np.rint(np.linspace(0, len(knob.values) - 1, min(count, len(knob.values)))).astype(int))
    values = [knob.values[place] for place in places] if count > 1 else []
    if knob.default not in values:
        # In place of the nearest, so that the number stays.
        if values:
            values.remove(min(values, key=lambda value: abs(value - knob.default)))
        values.append(knob.default)
    rising = knob.values[-1] >= knob.values[0]
    return tuple(sorted(values, reverse=not rising))


def closer_runs(study: Study, records: Sequence[Record]) -> list[Run]:
    """Runs halfway between each rival's best setting and its neighbours, where the promise may be kept for less."""
    return [
        Run(case=case, policy=RivalPolicy(label=name, knob=knob), seed=study.seeds[0])
        for case in study.cases
        for name in study.rivals
        for knob in _between(_searched(study, records, case, name), target=study.target)
    ]


def surer_runs(study: Study, records: Sequence[Record]) -> list[Run]:
    """Each rival's best setting of the first seed, and those around it, on the seeds that they were not run on."""
    ran = {(record.case, record.policy, record.knob, record.seed) for record in records}
    return [
        Run(case=case, policy=RivalPolicy(label=name, knob=knob), seed=seed)
        for case in study.cases
        for seed in study.seeds[1:]
        for name in study.rivals
        for knob in _around(_searched(study, records, case, name), target=study.target)
        if (case.name, name, knob, seed) not in ran
    ]


def _searched(study: Study, records: Sequence[Record], case: Case, name: str) -> list[Standing]:
    """How a rival's settings stand on the seed that is searched on."""
    return standings(
        record for record in records if (record.case, record.policy, record.seed) == (case.name, name, study.seeds[0])
    )


def _between(stood: Sequence[Standing], *, target: float) -> list[float]:
    best = best_setting(stood, target=target)
    if best is None or best.knob is None:
        return []
    values = sorted(each.knob for each in stood if each.knob is not None)
    at = values.index(best.knob)
    return [(best.knob + value) / 2 for value in values[max(0, at - 1) : at] + values[at + 1 : at + 2]]


def _around(stood: Sequence[Standing], *, target: float) -> list[float]:
    best = best_setting(stood, target=target)
    if best is None:
        return []
    by_cost = sorted(stood, key=lambda each: each.gpu_hours)
    at = by_cost.index(best)
    return [each.knob for each in by_cost[max(0, at - _CHEAPER) : at + _DEARER + 1] if each.knob is not None]
