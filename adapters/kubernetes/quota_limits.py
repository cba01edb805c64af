"""How many replicas the quotas and limit ranges of a namespace let a target have, devices apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adapters.kubernetes.quotas import LimitRangeView, QuotaView
from adapters.kubernetes.target_view import PodNeeds, is_extended

_ALIASES = {"count/pods": "pods", "cpu": "requests.cpu", "memory": "requests.memory"}
# A pod that says nothing of these is refused where a quota limits them.
_MUST_BE_GIVEN = frozenset(("requests.cpu", "requests.memory", "limits.cpu", "limits.memory"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Most:
    """Replicas that may be had, and what says so."""

    replicas: int
    detail: str


def most_replicas(
    groups: Sequence[tuple[PodNeeds, int]],
    *,
    existing: int,
    quotas: Sequence[QuotaView],
    limit_ranges: Sequence[LimitRangeView],
) -> Most | None:
    """How many replicas of these groups of pods (needs, number) quotas on anything but devices let there be.

    ``existing``: replicas that are counted already; ``quotas``: those that count such pods. None: no limit.
    """
    for limit_range in limit_ranges:
        for needs, _ in groups:
            if (refusal := limit_range.refusal(needs)) is not None:
                return Most(replicas=existing, detail=refusal)
    lowest: Most | None = None
    for quota in quotas:
        for resource in quota.hard:
            allowed = _allowed(quota, resource, groups=groups, limit_ranges=limit_ranges, existing=existing)
            if allowed is not None and (lowest is None or allowed.replicas < lowest.replicas):
                lowest = allowed
    return lowest


def _allowed(
    quota: QuotaView,
    resource: str,
    *,
    groups: Sequence[tuple[PodNeeds, int]],
    limit_ranges: Sequence[LimitRangeView],
    existing: int,
) -> Most | None:
    counted = _ALIASES.get(resource, resource)
    which, _, name = counted.partition(".")
    if quota.used is None or is_extended(name) or (counted != "pods" and which not in ("requests", "limits")):
        return None
    needed = 0.0
    for needs, pods in groups:
        each = 1.0 if counted == "pods" else _need(needs, which, name, limit_ranges)
        if each is None:
            if counted not in _MUST_BE_GIVEN:
                continue
            told = f"quota {quota.name} limits {resource}, and the pod template gives no {counted}: none can be created"
            return Most(replicas=existing, detail=told)
        needed += each * pods
    if needed <= 0:
        return None
    left = max(0.0, quota.hard[resource] - quota.used.get(resource, 0.0))
    more = int(left / needed + 1e-9)
    detail = f"quota {quota.name} on {resource} leaves {left:g}, a replica needs {needed:g}"
    return Most(replicas=existing + more, detail=detail)


def _need(needs: PodNeeds, which: str, name: str, limit_ranges: Sequence[LimitRangeView]) -> float | None:
    given = (needs.requests if which == "requests" else needs.limits).get(name)
    if given is not None:
        return given
    for limit_range in limit_ranges:
        defaults = limit_range.default_requests if which == "requests" else limit_range.default_limits
        if name in defaults:
            return defaults[name]
    return None
