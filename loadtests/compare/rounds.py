"""Which runs a study needs: first every policy, then the neighbourhood of each rival's best setting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loadtests.compare.records import Record
from loadtests.compare.standings import Standing, best_setting, standings
from loadtests.compare.study import Case, Policy, RivalPolicy, Run, Study
from loadtests.rivals.roster import rival


def first_runs(study: Study) -> list[Run]:
    """Ours, the baseline, and each rival at its default and at other settings; those of one traffic together."""
    policies: list[Policy] = [*study.ours]
    for name in study.rivals:
        policies += [RivalPolicy(label=name, knob=knob) for knob in settings_tried(name, study.knob_values)]
    if study.baseline not in policies:
        policies.append(study.baseline)
    return [
        Run(case=case, policy=policy, seed=seed) for case in study.cases for seed in study.seeds for policy in policies
    ]


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
    runs: list[Run] = []
    for case in study.cases:
        stood = [standing for standing in standings(records) if standing.case == case.name]
        for name in study.rivals:
            runs += _between(study, case, [each for each in stood if each.policy == name])
    return runs


def _between(study: Study, case: Case, stood: Sequence[Standing]) -> list[Run]:
    best = best_setting(stood, target=study.target)
    if best is None or best.knob is None:
        return []
    values = sorted(each.knob for each in stood if each.knob is not None)
    at = values.index(best.knob)
    neighbours = values[max(0, at - 1) : at] + values[at + 1 : at + 2]
    return [
        Run(case=case, policy=RivalPolicy(label=best.policy, knob=(best.knob + value) / 2), seed=seed)
        for seed in study.seeds
        for value in neighbours
    ]
