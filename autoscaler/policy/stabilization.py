"""Stage 5: growing at once, shrinking late and only on knowledge; the user's HPA ``behavior`` on top.

The rules of ``behavior`` (stabilization window, policies per period, selectPolicy, tolerance) are those of the
Kubernetes HPA (kubernetes/kubernetes pkg/controller/podautoscaler/horizontal.go).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autoscaler.domain.demand import Demand, Forecast
from autoscaler.domain.params import Params
from autoscaler.domain.plan import Reason, Stage, StageResult
from autoscaler.domain.reading import Unknown
from autoscaler.domain.service import Behavior, PolicyType, RatePolicy, ScalingRules, SelectPolicy
from autoscaler.policy.sizing import Requirement

_FULL_COVERAGE = 0.999


def down_window_s(rules: ScalingRules, forecast: Forecast | Unknown, *, measured_starts: int, params: Params) -> float:
    """How long the requirement must have been lower before a shrink: the longer, the longer a regret would last."""
    if rules.stabilization_window_s is not None:
        return rules.stabilization_window_s
    if isinstance(forecast, Unknown):
        return params.down_window_without_forecast_s
    if measured_starts == 0:  # it may last for long
        return params.down_window_s
    return min(params.down_window_s, max(params.short_window_s, params.down_window_part * forecast.lead_s))


def stabilize(
    *,
    now_s: float,
    requirement: Requirement,
    asked: int,
    demand: Demand,
    behavior: Behavior,
    window_s: float,
    requirements: Sequence[tuple[float, int]],
    changes: Sequence[tuple[float, int]],
) -> StageResult:
    """The count to ask for, given ``asked`` before. ``window_s``: of a shrink.

    ``requirements``: past (time, ``down``) including this tick's, oldest first. ``changes``: past (time, delta).
    """
    if requirement.up > asked:
        return _grow(
            requirement.up,
            asked,
            now_s=now_s,
            rules=behavior.scale_up,
            requirements=requirements,
            changes=changes,
        )
    if max(requirement.up, requirement.down) >= asked:
        return _result(asked, Reason.STEADY, "as many are needed or worth keeping")
    bar = barred(demand)
    if bar is not None:
        reason, why = bar
        return _result(asked, reason, f"{max(requirement.up, requirement.down)} would do, but {why}")
    if requirement.result.reason is Reason.SCALE_TO_ZERO:  # its idle time was longer evidence than any window
        return _result(0, Reason.SCALE_TO_ZERO, f"{asked} -> 0")
    return _shrink(
        requirement.down,
        asked,
        # Who sets a window is promised the largest need within it, as by an HPA.
        further=requirement.further if behavior.scale_down.stabilization_window_s is None else 0,
        now_s=now_s,
        window_s=window_s,
        rules=behavior.scale_down,
        requirements=requirements,
        changes=changes,
    )


def barred(demand: Demand) -> tuple[Reason, str] | None:
    """Why nothing may be given up now, if anything bars it."""
    unknown = [
        f"{name} is {value}"
        for name, value in (
            ("the arrival rate", demand.short_rps),
            ("the upper rate", demand.high_rps),
            ("the backlog", demand.backlog),
        )
        if isinstance(value, Unknown)
    ]
    if unknown:
        return Reason.NO_SHRINK_ON_UNKNOWN, unknown[0]
    if demand.coverage < _FULL_COVERAGE:
        return (
            Reason.PARTIAL_COVERAGE,
            f"{demand.coverage:.0%} of the fleet was observed" + _named(demand.unobserved),
        )
    if not demand.window_full:
        return Reason.NO_SHRINK_WHILE_WARMING_UP, "the measuring window is not full yet"
    return None


def _grow(
    wanted: int,
    asked: int,
    *,
    now_s: float,
    rules: ScalingRules,
    requirements: Sequence[tuple[float, int]],
    changes: Sequence[tuple[float, int]],
) -> StageResult:
    if asked > 0 and wanted / asked - 1 <= rules.tolerance:
        return _result(asked, Reason.WITHIN_TOLERANCE, f"{wanted} is within {rules.tolerance:.0%} of {asked}")
    window_s = rules.stabilization_window_s or 0.0
    lowest = min([count for at_s, count in requirements if at_s > now_s - window_s] + [wanted])
    if lowest <= asked:
        return _result(asked, Reason.SCALE_UP_STABILIZED, f"needed {wanted} for less than {window_s:.0f} s")
    allowed = _ceiling(now_s, asked, rules, changes)
    target = min(wanted, lowest)
    if target > allowed:
        return _result(max(asked, allowed), Reason.RATE_LIMITED, f"scaleUp policies allow {allowed}")
    return _result(target, Reason.GROW, f"{asked} -> {target}")


def _shrink(
    wanted: int,
    asked: int,
    *,
    further: int,
    now_s: float,
    window_s: float,
    rules: ScalingRules,
    requirements: Sequence[tuple[float, int]],
    changes: Sequence[tuple[float, int]],
) -> StageResult:
    if not requirements or requirements[0][0] > now_s - window_s + 1e-6:
        since_s = now_s - requirements[0][0] if requirements else 0.0
        return _result(
            asked,
            Reason.NO_SHRINK_WHILE_WARMING_UP,
            f"{wanted} would do; known for {since_s:.0f} s of {window_s:.0f} s",
        )
    # A need holds until the next one is known, so that of the window's begin may be older.
    begin_s = max(at_s for at_s, _ in requirements if at_s <= now_s - window_s + 1e-6)
    highest = max([count for at_s, count in requirements if at_s >= begin_s] + [wanted])
    if highest >= asked:
        return _result(asked, Reason.SCALE_DOWN_STABILIZED, f"{highest} were needed within the last {window_s:.0f} s")
    target = highest - further
    if 1 - target / asked <= rules.tolerance:
        return _result(asked, Reason.WITHIN_TOLERANCE, f"{target} is within {rules.tolerance:.0%} of {asked}")
    allowed = _floor(now_s, asked, rules, changes)
    if target < allowed:
        return _result(min(asked, allowed), Reason.RATE_LIMITED, f"scaleDown policies allow {allowed}")
    return _result(target, Reason.SHRINK, f"{asked} -> {target}")


def _ceiling(now_s: float, asked: int, rules: ScalingRules, changes: Sequence[tuple[float, int]]) -> int:
    """The most that the scaleUp policies allow now; no policies, no limit."""
    if rules.select_policy is SelectPolicy.DISABLED:
        return asked
    if not rules.policies:
        return 2**31

    def limit(policy: RatePolicy) -> int:
        grown = sum(delta for at_s, delta in changes if delta > 0 and at_s > now_s - policy.period_s)
        start = asked - grown
        if policy.type is PolicyType.PODS:
            return start + policy.value
        return math.ceil(start * (1 + policy.value / 100))

    limits = [limit(policy) for policy in rules.policies]
    return min(limits) if rules.select_policy is SelectPolicy.MIN else max(limits)


def _floor(now_s: float, asked: int, rules: ScalingRules, changes: Sequence[tuple[float, int]]) -> int:
    """The least that the scaleDown policies allow now; no policies, no limit."""
    if rules.select_policy is SelectPolicy.DISABLED:
        return asked
    if not rules.policies:
        return 0

    def limit(policy: RatePolicy) -> int:
        shrunk = -sum(delta for at_s, delta in changes if delta < 0 and at_s > now_s - policy.period_s)
        start = asked + shrunk
        if policy.type is PolicyType.PODS:
            return start - policy.value
        return math.floor(start * (1 - policy.value / 100))

    limits = [limit(policy) for policy in rules.policies]
    return max(0, max(limits) if rules.select_policy is SelectPolicy.MIN else min(limits))


def _named(names: Sequence[str]) -> str:
    return f" ({names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''})" if names else ""


def _result(replicas: int, reason: Reason, detail: str) -> StageResult:
    return StageResult(stage=Stage.STABILIZE, replicas=replicas, reason=reason, detail=detail)
