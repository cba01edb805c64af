"""Deployments, StatefulSets and LeaderWorkerSets as targets."""

from __future__ import annotations

from adapters.kubernetes.label_matching import equal_labels, selector_of
from adapters.kubernetes.pod_templates import needs_of
from adapters.kubernetes.raw_json import JsonObject, flag, found, inner, objects, optional_text, optional_whole, text
from adapters.kubernetes.scalable import Scalable, TargetKind, scalable, view_of
from adapters.kubernetes.target_view import PodGroup, Rollout

_LWS = "leaderworkerset.sigs.k8s.io"


def deployment(kind: TargetKind, source: JsonObject) -> Scalable:
    view = view_of(
        kind,
        source,
        selector=selector_of(inner(source, "spec", "selector")),
        groups=[PodGroup(needs=needs_of(inner(source, "spec", "template")))],
        rollout=_deployment_rollout(source),
        paused=flag(source, "spec", "paused"),
        by_cost=True,
    )
    return scalable(source, view)


def _deployment_rollout(source: JsonObject) -> Rollout | None:
    """As ``kubectl rollout status`` tells it (kubectl/pkg/polymorphichelpers/rollout_status.go).

    An observed generation that lags says only that the controller has not looked yet: every change of the count
    makes it lag for a moment, so it is no sign of a rollout.
    """
    wanted = optional_whole(source, "spec", "replicas")
    wanted = 1 if wanted is None else wanted
    updated = optional_whole(source, "status", "updatedReplicas") or 0
    total = optional_whole(source, "status", "replicas") or 0
    # Pods of the old template are there; pods that are merely missing are no rollout.
    if total <= updated:
        return None
    stalled = any(
        optional_text(each, "type") == "Progressing" and optional_text(each, "reason") == "ProgressDeadlineExceeded"
        for each in objects(source, "status", "conditions")
    )
    return Rollout(updated=updated, wanted=max(wanted, total), stalled=stalled)


def stateful_set(kind: TargetKind, source: JsonObject) -> Scalable:
    view = view_of(
        kind,
        source,
        selector=selector_of(inner(source, "spec", "selector")),
        groups=[PodGroup(needs=needs_of(inner(source, "spec", "template")))],
        rollout=_stateful_rollout(source),
    )
    return scalable(source, view)


def _stateful_rollout(source: JsonObject) -> Rollout | None:
    """Two revisions at once. What a partition keeps back, or waits for a hand (OnDelete), is at rest."""
    update, current = (optional_text(source, "status", f"{which}Revision") for which in ("update", "current"))
    if update == current or optional_text(source, "spec", "updateStrategy", "type") == "OnDelete":
        return None
    total = optional_whole(source, "status", "replicas") or 0
    partition = optional_whole(source, "spec", "updateStrategy", "rollingUpdate", "partition") or 0
    wanted, updated = max(0, total - partition), optional_whole(source, "status", "updatedReplicas") or 0
    return Rollout(updated=updated, wanted=wanted) if updated < wanted else None


def leader_worker_set(kind: TargetKind, source: JsonObject) -> Scalable:
    """A replica is a group of ``size`` pods, the leader being one of them (LeaderWorkerSet docs, API and labels)."""
    template = inner(source, "spec", "leaderWorkerTemplate")
    size = optional_whole(template, "size")
    size = 1 if size is None else size
    workers = needs_of(inner(template, "workerTemplate"))
    leader = needs_of(inner(template, "leaderTemplate")) if found(template, "leaderTemplate") is not None else workers
    name = text(source, "metadata", "name")
    groups = [PodGroup(needs=leader)] + ([PodGroup(needs=workers, pods=size - 1)] if size > 1 else [])
    updated = optional_whole(source, "status", "updatedReplicas") or 0
    total = optional_whole(source, "status", "replicas") or 0
    updating = any(
        optional_text(each, "type") == "UpdateInProgress" and optional_text(each, "status") == "True"
        for each in objects(source, "status", "conditions")
    )
    view = view_of(
        kind,
        source,
        selector=equal_labels({f"{_LWS}/name": name}),
        leader=equal_labels({f"{_LWS}/name": name, f"{_LWS}/worker-index": "0"}),
        group_label=f"{_LWS}/group-index",
        groups=groups,
        rollout=Rollout(updated=updated, wanted=total) if updating and updated < total else None,
    )
    return scalable(source, view)
