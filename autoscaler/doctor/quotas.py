"""Checks of ResourceQuotas and LimitRanges: whether they leave room for the replicas that may be asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from adapters.kubernetes.quota_limits import most_replicas
from adapters.kubernetes.quotas import LimitRangeView, QuotaView, Scoped, limit_range_view, quota_view
from adapters.kubernetes.raw_json import JsonObject
from adapters.kubernetes.target_view import TargetView
from autoscaler.doctor.facts import ClusterFacts, Viewed, known, named
from autoscaler.doctor.finding import CheckId, Finding, Findings, of_each, warning
from autoscaler.ports import PortError

T = TypeVar("T")
_FIX = "raise the quota, or lower spec.maxReplicas"


def check_quotas(facts: ClusterFacts) -> Findings:
    """Quotas and limit ranges that leave fewer replicas than the resource may ask for."""
    quotas, unread = _read("ResourceQuota", known(facts.quotas), quota_view)
    limits, more = _read("LimitRange", known(facts.limit_ranges), limit_range_view)
    yield from (*unread, *more)
    yield from of_each(
        CheckId.QUOTA, facts.viewed_by_name(), lambda subject, viewed: _room(subject, viewed, quotas, limits)
    )


def _read(kind: str, items: Sequence[JsonObject], read: Callable[[JsonObject], T]) -> tuple[list[T], list[Finding]]:
    """Those that can be read, and a finding for each of the others."""
    views, unread = [], []
    for subject, source in named(kind, items):
        try:
            views.append(read(source))
        except PortError as failure:
            unread.append(warning(CheckId.QUOTA, subject, f"can't be read: {failure}", f"kubectl edit {subject}"))
    return views, unread


def _room(subject: str, viewed: Viewed, quotas: Sequence[QuotaView], limits: Sequence[LimitRangeView]) -> Findings:
    view, wanted = viewed.view, viewed.resource.service.bounds.max_replicas
    here = [quota for quota in quotas if quota.namespace == view.namespace and quota.counts(_scoped(view))]
    most = most_replicas(
        [(group.needs, group.pods) for group in view.groups or ()],
        existing=view.replicas,
        quotas=here,
        limit_ranges=[each for each in limits if each.namespace == view.namespace],
    )
    if most is not None and most.replicas < wanted:
        message = f"{view.scaled} can have {most.replicas} replicas, maxReplicas is {wanted}: {most.detail}"
        yield warning(CheckId.QUOTA, subject, message, _FIX)
    request = view.device_request
    if request is None:
        return
    for quota in here:
        hard = quota.devices.get(request.kind)
        if hard is None:
            continue
        left = max(0.0, hard - (quota.used or {}).get(f"requests.{request.kind}", 0.0))
        each = request.count * request.pods
        if view.replicas + int(left // each) < wanted:
            told = f"quota {quota.name} leaves {left:g} of {hard} {request.kind}, and a replica takes {each}"
            yield warning(CheckId.QUOTA, subject, f"{told}: fewer than maxReplicas {wanted} fit", _FIX)


def _scoped(view: TargetView) -> Scoped:
    """What the scopes of quotas look at; pods with devices always request something."""
    needs = [group.needs for group in view.groups or ()]
    return Scoped(priority_class=needs[0].priority_class if needs else "")
