"""Pods: what of them matters to a decision, and where each is in its life.

States and reasons: Kubernetes docs, "Pod Lifecycle"; kubelet, pkg/kubelet/images/types.go and
pkg/kubelet/kuberuntime (waiting reasons of containers).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from adapters.kubernetes.deletion_cost import COST_ANNOTATION
from adapters.kubernetes.pod_life import Life, Lived, life_of
from adapters.kubernetes.pod_templates import needs_of
from adapters.kubernetes.raw_json import (
    JsonObject,
    ShapeError,
    flag,
    found,
    inner,
    moment_s,
    objects,
    optional_text,
    optional_whole,
    strings,
    text,
    whole,
)

_NOTHING: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The object that made a pod and makes another in its place."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """One pod.

    ``node``: "" while it has none. ``ip``: None while it has no address. ``ports``: (name, number) of its containers'
    ports, "" where a port has no name. ``scrape_port``: by its annotation prometheus.io/port.
    ``devices``: extended resources that it takes of its node, by name. ``preempts``: may push pods of lower priority
    off a node. ``priority_class``, ``best_effort``, ``has_deadline``: what the scopes of quotas look at.
    ``deleting_s``: when it must be gone, None while nobody deletes it. ``deletion_cost``: what its ReplicaSet compares.
    """

    namespace: str
    name: str
    uid: str
    created_s: float
    lived: Lived
    labels: Mapping[str, str] = field(default_factory=dict)
    node: str = ""
    ip: str | None = None
    ports: tuple[tuple[str, int], ...] = ()
    scrape_port: int | None = None
    devices: Mapping[str, int] = field(default_factory=dict)
    priority: int = 0
    preempts: bool = True
    priority_class: str = ""
    best_effort: bool = False
    has_deadline: bool = False
    owner: Owner | None = None
    deleting_s: float | None = None
    deletion_cost: int | None = None

    @property
    def life(self) -> Life:
        """Where it is in its life."""
        return self.lived.life

    @property
    def holds(self) -> bool:
        """Whether it takes devices of a node."""
        return bool(self.devices) and bool(self.node) and self.lived.life is not Life.GONE


def pod_view(source: JsonObject) -> PodView:
    """A raw Pod. Raises ShapeError."""
    created_s = moment_s(source, "metadata", "creationTimestamp")
    if created_s is None:
        raise ShapeError("metadata.creationTimestamp: missing")
    spec = found(source, "spec")
    if not isinstance(spec, Mapping):
        raise ShapeError("spec: missing")
    return PodView(
        namespace=text(source, "metadata", "namespace"),
        name=text(source, "metadata", "name"),
        uid=text(source, "metadata", "uid"),
        created_s=created_s,
        lived=life_of(source),
        labels=strings(source, "metadata", "labels"),
        node=optional_text(spec, "nodeName") or "",
        ip=optional_text(source, "status", "podIP") or None,
        ports=_ports(objects(spec, "containers")),
        scrape_port=_scrape_port(source),
        devices=_devices(source, spec),
        priority=optional_whole(spec, "priority") or 0,
        preempts=optional_text(spec, "preemptionPolicy") != "Never",
        priority_class=optional_text(spec, "priorityClassName") or "",
        best_effort=optional_text(source, "status", "qosClass") == "BestEffort",
        has_deadline=found(spec, "activeDeadlineSeconds") is not None,
        owner=_owner(source),
        deleting_s=moment_s(source, "metadata", "deletionTimestamp"),
        deletion_cost=_deletion_cost(source),
    )


def _deletion_cost(source: JsonObject) -> int | None:
    """By its annotation; one that is no number counts as none, as it does for a ReplicaSet."""
    given = strings(source, "metadata", "annotations").get(COST_ANNOTATION, "")
    return int(given) if given.lstrip("-").isdecimal() else None


def _ports(containers: Sequence[JsonObject]) -> tuple[tuple[str, int], ...]:
    return tuple(
        (optional_text(port, "name") or "", whole(port, "containerPort"))
        for container in containers
        for port in objects(container, "ports")
        if (optional_text(port, "protocol") or "TCP") == "TCP"
    )


def _scrape_port(source: JsonObject) -> int | None:
    """Other annotations are nobody's business here, and a wrong one of these is no reason to lose the pod."""
    written = found(source, "metadata", "annotations", "prometheus.io/port")
    if isinstance(written, str) and written.isascii() and written.isdecimal() and 0 < int(written) < 65536:
        return int(written)
    return None


def _devices(source: JsonObject, spec: JsonObject) -> Mapping[str, int]:
    """Few pods have any, so the others are let through at a glance."""
    for container in (*objects(spec, "containers"), *objects(spec, "initContainers")):
        # A resource that is requested to its limit has the limit alone.
        for which in ("requests", "limits"):
            if any("/" in name for name in inner(container, "resources", which)):
                return needs_of(source).devices or _NOTHING
    return _NOTHING


def _owner(source: JsonObject) -> Owner | None:
    for each in objects(source, "metadata", "ownerReferences"):
        if flag(each, "controller"):
            return Owner(kind=text(each, "kind"), name=text(each, "name"), uid=text(each, "uid"))
    return None
