"""Pods as replicas: which pods make up one, what phase that is, and where its metrics page is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from adapters.kubernetes.label_matching import LabelSelector
from adapters.kubernetes.nodes import Heard, NodeView
from adapters.kubernetes.pod_life import Life
from adapters.kubernetes.pods import PodView
from autoscaler.domain.cluster import Phase, Replica
from autoscaler.domain.resource import MetricsEndpoint, Scheme
from autoscaler.domain.service import DeviceRequest, ServiceId

FLAP_S = 60.0  # a readiness probe that fails for less is taken for load or a hiccup
_PHASES = {
    Life.UNSCHEDULED: Phase.STARTING,
    Life.STARTING: Phase.STARTING,
    Life.READY: Phase.READY,
    Life.ENDING: Phase.DRAINING,
    Life.FAILED: Phase.FAILED,
}
_METRICS_PORTS = ("metrics", "http-metrics", "http")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaKind:
    """What the replicas of one variant have in common. ``target``, ``group_label``, ``leader``, ``pods``: see
    ``TargetView`` (the object's name; the pods that make up one replica).
    """

    service: ServiceId
    variant: str
    target: str
    endpoint: MetricsEndpoint
    devices: DeviceRequest | None = None
    group_label: str | None = None
    leader: LabelSelector | None = None
    pods: int = 1


class ReplicaViews:
    """Pods turned into replicas; what became of a pod is kept until it changes."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Known] = {}
        self._before: dict[tuple[str, str], _Known] = {}

    def begin(self) -> None:
        """Another snapshot: pods that were not seen in the last one are forgotten."""
        self._before, self._known = self._known, {}

    def of(
        self, kind: ReplicaKind, pods: Sequence[PodView], nodes: Mapping[str, NodeView], *, now_s: float
    ) -> list[tuple[Replica, Sequence[PodView]]]:
        """The replicas that these pods are, each with its pods, those that hold devices first.

        Pods that have ended are none. Those that serve come first and then the older ones, so that of more replicas
        than were asked for the last are the surplus.
        """
        alive = [pod for pod in pods if pod.life is not Life.GONE]
        found = self._found(kind, alive, nodes, now_s=now_s, patience_s=FLAP_S)
        if any(pod.life is Life.UNREADY for pod in alive) and all(each.phase is not Phase.READY for each, _ in found):
            # Where none is ready it is more likely load than one that broke, and their queues are all there is to see.
            found = self._found(kind, alive, nodes, now_s=now_s, patience_s=math.inf)
        return sorted(found, key=_by_worth) if len(found) > 1 else found

    def _found(
        self,
        kind: ReplicaKind,
        alive: Sequence[PodView],
        nodes: Mapping[str, NodeView],
        *,
        now_s: float,
        patience_s: float,
    ) -> list[tuple[Replica, Sequence[PodView]]]:
        found: list[tuple[Replica, Sequence[PodView]]]
        if kind.group_label is None:
            found = [(self._single(kind, pod, nodes.get(pod.node), now_s, patience_s), (pod,)) for pod in alive]
        else:
            groups: dict[str, list[PodView]] = {}
            for pod in alive:
                # A pod without the label is nobody's group, and is told as one of its own.
                groups.setdefault(pod.labels.get(kind.group_label, f"pod {pod.name}"), []).append(pod)
            found = [
                _group(kind, label, members, nodes, now_s=now_s, patience_s=patience_s)
                for label, members in sorted(groups.items())
            ]
        return found

    def _single(
        self, kind: ReplicaKind, pod: PodView, node: NodeView | None, now_s: float, patience_s: float
    ) -> Replica:
        key = pod.namespace, pod.name
        heard = None if node is None else node.heard
        known = self._before.get(key)
        if known is None or known.pod is not pod or known.kind is not kind or known.heard is not heard:
            known = _Known(pod, kind, heard, single(kind, pod, node, now_s=now_s, patience_s=patience_s))
        if pod.life is not Life.UNREADY:  # what that is depends on the time
            self._known[key] = known
        return known.replica


class _Known(NamedTuple):
    """What a pod became, and all that this depended on."""

    pod: PodView
    kind: ReplicaKind
    heard: Heard | None
    replica: Replica


def single(
    kind: ReplicaKind, pod: PodView, node: NodeView | None, *, now_s: float, patience_s: float = FLAP_S
) -> Replica:
    """A pod as the replica that it is, or is part of. ``patience_s``: how long an unready one is not given up."""
    phase, detail = _phase(pod, node, now_s, patience_s)
    lived, serves = pod.lived, phase in (Phase.READY, Phase.DRAINING)
    url = metrics_url(pod, kind.endpoint)
    if serves and url is None:
        detail = _joined(detail, no_metrics_port(pod, kind.endpoint) if pod.ip else "it has no address")
    return Replica(
        name=f"{pod.namespace}/{pod.name}",
        service=kind.service,
        variant=kind.variant,
        phase=phase,
        # A container that was started again is measured from there: the crash before it is no part of a start.
        created_s=lived.started_s if lived.restarts and lived.started_s is not None else pod.created_s,
        ready_s=_ready_s(pod) if phase is not Phase.STARTING else None,
        metrics_url=url,
        restarts=lived.restarts,
        detail=detail,
        nodes=(pod.node,) if pod.node else (),
        unschedulable_since_s=lived.since_s if lived.unschedulable and phase is Phase.STARTING else None,
        failing_probe=lived.detail if phase is Phase.READY and pod.life is Life.UNREADY and not _silent(node) else None,
    )


def metrics_url(pod: PodView, endpoint: MetricsEndpoint) -> str | None:
    """Of its metrics page; None while it has no address, or where nothing tells the port."""
    port = metrics_port(pod, endpoint)
    if pod.ip is None or port is None:
        return None
    return f"{address_of(pod.ip, port, scheme=endpoint.scheme)}{endpoint.path}"


def address_of(ip: str, port: int, *, scheme: Scheme) -> str:
    """A URL without a path."""
    return f"{scheme}://[{ip}]:{port}" if ":" in ip else f"{scheme}://{ip}:{port}"


def no_metrics_port(pod: PodView, endpoint: MetricsEndpoint) -> str:
    """Why no port of it is known, for a person."""
    named = ", ".join(f"{name or 'unnamed'} {number}" for name, number in pod.ports) or "none"
    if endpoint.port is not None:
        return f"its containers have no port named {endpoint.port} (they have: {named})"
    return f"which port has the metrics is not said (its containers have: {named}); set spec.metrics.port"


def metrics_port(pod: PodView, endpoint: MetricsEndpoint) -> int | None:
    """Of its metrics page; None where nothing tells it."""
    wanted = endpoint.port
    if isinstance(wanted, int):
        return wanted
    named = dict(reversed(pod.ports))
    if wanted is not None:
        return named.get(wanted)
    if pod.scrape_port is not None:
        return pod.scrape_port
    if len(pod.ports) == 1:
        return pod.ports[0][1]
    return next((named[name] for name in _METRICS_PORTS if name in named), None)


def _phase(pod: PodView, node: NodeView | None, now_s: float, patience_s: float) -> tuple[Phase, str]:
    """A node that isn't heard of says nothing about its pods: the control plane calls them unready all the same.

    Such a pod stays what it was. Its page is asked for as ever: where it answers the replica serves, and where it
    doesn't its load is unknown, which is not none.
    """
    life, detail = pod.life, pod.lived.detail
    silent = _silent(node)
    if life is Life.UNREADY:
        since_s = pod.lived.since_s
        flaps = since_s is not None and now_s - since_s < patience_s
        phase = Phase.READY if silent or flaps else Phase.FAILED
    else:
        phase = _PHASES[life]
    if silent and pod.node:
        detail = _joined(f"node {pod.node} is not heard of any more", "" if phase is Phase.READY else detail)
    return phase, detail


def _silent(node: NodeView | None) -> bool:
    return node is not None and node.heard is Heard.SILENT


def _ready_s(pod: PodView) -> float | None:
    """When it was first ready, as far as its status still tells."""
    if pod.life is Life.READY:
        return pod.lived.since_s
    return pod.lived.started_s


def _group(
    kind: ReplicaKind,
    label: str,
    pods: Sequence[PodView],
    nodes: Mapping[str, NodeView],
    *,
    now_s: float,
    patience_s: float,
) -> tuple[Replica, Sequence[PodView]]:
    """A replica of several pods: no better than the worst of them."""
    ordered = sorted(pods, key=lambda pod: (not pod.devices, pod.name))
    leader = next((pod for pod in ordered if kind.leader is not None and kind.leader.matches(pod.labels)), None)
    members = {pod.name: single(kind, pod, nodes.get(pod.node), now_s=now_s, patience_s=patience_s) for pod in ordered}
    head = members[leader.name] if leader is not None else None
    first = head if head is not None else members[min(members)]
    phase, detail = _group_phase(kind, members, head)
    waiting = [each.unschedulable_since_s for each in members.values() if each.unschedulable_since_s is not None]
    ready = [each.ready_s for each in members.values() if each.ready_s is not None]
    replica = Replica(
        name=first.name if head is not None or kind.leader is None else f"{pods[0].namespace}/{kind.target}-{label}",
        service=kind.service,
        variant=kind.variant,
        phase=phase,
        created_s=first.created_s,
        ready_s=max(ready, default=None) if phase is not Phase.STARTING else None,
        metrics_url=first.metrics_url if head is not None or kind.leader is None else None,
        restarts=sum(each.restarts for each in members.values()),
        detail=detail,
        nodes=tuple(pod.node for pod in ordered if pod.node),
        unschedulable_since_s=min(waiting, default=None) if phase is Phase.STARTING else None,
        failing_probe=next((each.failing_probe for each in members.values() if each.failing_probe), None)
        if phase is Phase.READY
        else None,
    )
    return replica, ordered


def _group_phase(kind: ReplicaKind, members: Mapping[str, Replica], head: Replica | None) -> tuple[Phase, str]:
    phases = {name: each.phase for name, each in members.items()}
    if (head is not None and head.phase is Phase.DRAINING) or set(phases.values()) == {Phase.DRAINING}:
        return Phase.DRAINING, ""
    for wanted, told in ((Phase.FAILED, ""), (Phase.DRAINING, "is being deleted"), (Phase.STARTING, "")):
        for name, phase in phases.items():
            if phase is wanted:
                shown = Phase.FAILED if phase is Phase.DRAINING else phase
                return shown, f"pod {name}: {told or members[name].detail}"
    if len(members) < kind.pods:
        return Phase.STARTING, f"{len(members)} of {kind.pods} pods exist"
    return Phase.READY, next((f"pod {name}: {each.detail}" for name, each in members.items() if each.detail), "")


_WORTH = {Phase.READY: 0, Phase.STARTING: 1, Phase.FAILED: 2, Phase.DRAINING: 3}


def _by_worth(found: tuple[Replica, Sequence[PodView]]) -> tuple[int, bool, float, str]:
    replica = found[0]
    return _WORTH[replica.phase], not replica.nodes, replica.created_s, replica.name


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
