"""What exists: devices, replicas and the number of replicas that was last asked for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from autoscaler.domain.service import ServiceId


class Phase(StrEnum):
    """Where a replica is in its life."""

    STARTING = "Starting"
    READY = "Ready"
    DRAINING = "Draining"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU or MIG slice, or ``count`` of them on one node.

    ``id``: index or UUID as CUDA_VISIBLE_DEVICES takes it; in a cluster, where single ones have no name, node and
    kind. ``kind``: "gpu" or "mig-PROFILE"; in a cluster the resource's name. ``pool``: nodes of one pool may be used
    by the same targets. ``holder_priority``: a pod of somebody else's holds it, and may be preempted by one of higher
    priority; what others hold for good is not listed. ``detail``: what is wrong with one that is not healthy.
    """

    id: str
    kind: str = "gpu"
    healthy: bool = True
    count: int = 1
    node: str = ""
    pool: str = ""
    holder_priority: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One running (or starting, draining, failed) copy of a service.

    ``created_s``: when its start was asked for; ``ready_s``: when it was first ready, None before.
    ``metrics_url``: its metrics page, None while it has no address. ``restarts``: failed starts or crashes so far.
    A FAILED replica waits for its next start and is no capacity. ``nodes``: where it runs, in a cluster, one name for
    each of its pods that has a place. ``unschedulable_since_s``: since when no node would take it.
    ``http_port``, ``grpc_port``: its server's own ports, where it was given ports beside that of its page.
    ``failing_probe``: what the readiness probe says that a READY one has failed lately, None where it has not.
    """

    name: str
    service: ServiceId
    variant: str
    phase: Phase
    created_s: float
    ready_s: float | None = None
    devices: tuple[str, ...] = ()
    metrics_url: str | None = None
    restarts: int = 0
    detail: str = ""
    nodes: tuple[str, ...] = ()
    unschedulable_since_s: float | None = None
    http_port: int | None = None
    grpc_port: int | None = None
    failing_probe: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The replica count last asked for, by service and variant, as the cluster holds it.

    ``foreign_owner``: who else writes it, None while we are its only writer. ``suspended``: why it may not be changed
    now though it is ours, such as a count set to zero by hand. ``pools``: the pools of nodes that may carry its
    replicas, None for all. ``priority``: of its pods. ``most``: replicas that a quota on anything but devices lets it
    have, None without one; ``most_detail`` says which.
    """

    service: ServiceId
    variant: str
    replicas: int
    foreign_owner: str | None = None
    suspended: str | None = None
    pools: tuple[str, ...] | None = None
    priority: int = 0
    most: int | None = None
    most_detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A limit on the devices of one kind that some services may hold together, what they hold included."""

    name: str
    kind: str
    devices: int
    services: tuple[ServiceId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """All of it at one moment."""

    at_s: float
    devices: tuple[Device, ...]
    replicas: tuple[Replica, ...]
    targets: tuple[Target, ...]
    quotas: tuple[Quota, ...] = ()
