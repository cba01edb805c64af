"""What a comparison comes to, in words: who ties, who wins, what was missed, and which setting of ours to take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadtests.compare.standings import TIE, Standing, best_setting, geometric_mean
from loadtests.compare.study import OURS, RivalPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFindings:
    """One case. ``ours``: the configuration as it is. ``defaults``, ``bests``: the rivals at their default setting, and
    at the one that is best in hindsight (only those that keep the promise with any). ``notes``: in words.
    """

    case: str
    bound_name: str
    ours: Standing
    baseline: Standing
    defaults: tuple[Standing, ...]
    bests: tuple[Standing, ...]
    stood: tuple[Standing, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """The setting of ours to take. ``ratio``: geometric mean over the cases of GPU-hours in parts of the bound.
    ``saving``: of GPU-hours against the baseline, over all cases. ``kept``: it keeps the promise in every case.
    """

    policy: str
    ratio: float
    saving: float
    kept: bool
    words: tuple[str, ...]


def case_findings(
    stood: Sequence[Standing],
    *,
    case: str,
    bound_name: str,
    target: float,
    baseline: RivalPolicy,
    defaults: dict[str, float],
) -> CaseFindings:
    """Of the standings of one case. ``defaults``: each rival's knob as shipped."""
    here = [each for each in stood if each.case == case]
    ours = next(each for each in here if each.policy == OURS)
    rivals = {name: [each for each in here if each.policy == name] for name in defaults}
    found = [best_setting(each, target=target) for each in rivals.values()]
    bests = tuple(sorted((each for each in found if each is not None), key=lambda each: each.gpu_hours))
    return CaseFindings(
        case=case,
        bound_name=bound_name,
        ours=ours,
        baseline=next(each for each in here if (each.policy, each.knob) == (baseline.label, baseline.knob)),
        defaults=tuple(each for name, knob in defaults.items() for each in rivals[name] if each.knob == knob),
        bests=bests,
        stood=tuple(here),
        notes=tuple(_notes(ours, bests, rivals, target=target, bound_name=bound_name)),
    )


def pick(findings: Sequence[CaseFindings], *, target: float) -> Pick:
    """The cheapest of our settings that keeps the promise in every case; if none does, the one that misses least."""
    labels = [each.policy for each in findings[0].stood if each.is_ours]
    options = {label: [_of(found, label) for found in findings] for label in labels}
    kept = {label: each for label, each in options.items() if all(one.attains(target) for one in each)}
    if kept:
        label = min(kept, key=lambda each: _mean_ratio(kept[each]))
    else:
        label = min(options, key=lambda each: max(one.missed for one in options[each]))
    chosen = options[label]
    hours = sum(each.gpu_hours for each in chosen)
    baseline_hours = sum(found.baseline.gpu_hours for found in findings)
    saving = 1 - hours / baseline_hours
    return Pick(
        policy=label,
        ratio=_mean_ratio(chosen),
        saving=saving,
        kept=bool(kept),
        words=tuple(_pick_words(label, chosen, findings, saving=saving, kept=bool(kept), target=target)),
    )


def shown(standing: Standing) -> str:
    """A policy's name with its setting."""
    return standing.policy if standing.knob is None else f"{standing.policy} ({standing.knob:g})"


def _of(found: CaseFindings, label: str) -> Standing:
    return next(each for each in found.stood if each.policy == label)


def _mean_ratio(stood: Sequence[Standing]) -> float:
    return geometric_mean([each.ratio for each in stood])


def _notes(
    ours: Standing,
    bests: Sequence[Standing],
    rivals: dict[str, list[Standing]],
    *,
    target: float,
    bound_name: str,
) -> list[str]:
    cost = f"Ours used {ours.gpu_hours:.1f} GPU-hours, {ours.ratio:.3f} times the bound {bound_name}"
    notes = [f"{cost}, with {ours.share_in_slo:.2%} of the requests in SLO (promised: {target:.2%})."]
    if ours.seeds > 1:
        notes.append(
            f"Single seeds: {ours.least_ratio:.3f} to {ours.most_ratio:.3f} times the bound, at least "
            f"{ours.worst_share:.2%} in SLO."
        )
    if not ours.attains(target):
        notes.append(
            f"Ours missed the promise by {(target - ours.share_in_slo) * 100:.2f} points here: a cheaper figure than "
            "that of a rival who keeps it is no win."
        )
    cheaper = [each for each in bests if each.gpu_hours < ours.gpu_hours * (1 - TIE)]
    ties = [each for each in bests if abs(each.gpu_hours / ours.gpu_hours - 1) <= TIE]
    notes += [
        f"{shown(each)} is cheaper by {1 - each.gpu_hours / ours.gpu_hours:.1%}, with a setting that was chosen after "
        "the fact on this very traffic."
        for each in cheaper
    ]
    if ties:
        notes.append(
            f"Within {TIE:.0%} of ours, a tie, at the setting that is best in hindsight: {'; '.join(map(shown, ties))}."
        )
    if bests and not cheaper and not ties:
        nearest = bests[0]
        notes.append(
            f"The nearest rival is {shown(nearest)}, {nearest.gpu_hours / ours.gpu_hours - 1:.1%} dearer even with the "
            "setting that is best in hindsight."
        )
    reached = {each.policy for each in bests}
    never = [name for name, tried in rivals.items() if tried and name not in reached]
    if never:
        notes.append(f"With no setting tried did these keep the promise: {'; '.join(never)}.")
    return notes


def _pick_words(
    label: str,
    chosen: Sequence[Standing],
    findings: Sequence[CaseFindings],
    *,
    saving: float,
    kept: bool,
    target: float,
) -> list[str]:
    what = "the configuration as it is" if label == OURS else label.removeprefix(f"{OURS} ")
    shares = ", ".join(f"{each.share_in_slo:.2%}" for each in chosen)
    words = [f"Setting of ours to take: {what} ({shares} in SLO, {_mean_ratio(chosen):.3f} times the bound)."]
    if not kept:
        words.append(f"No setting tried keeps {target:.2%} in every case; this one misses least.")
    baseline = findings[0].baseline
    shares = ", ".join(f"{found.baseline.share_in_slo:.2%}" for found in findings)
    if abs(saving) <= TIE:
        cost = f"it costs the same within {TIE:.0%}"
    else:
        cost = f"it saves {saving:.1%} of the GPU-hours" if saving > 0 else f"it costs {-saving:.1%} more GPU-hours"
    words.append(f"Against {shown(baseline)} ({shares} in SLO) {cost}.")
    if any(not found.baseline.attains(target) for found in findings):
        words.append(
            "What runs now does not keep the promise in every case, so a part of its hours is missing from it."
        )
    return words
