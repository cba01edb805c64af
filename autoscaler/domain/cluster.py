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
    """A GPU or MIG slice. ``id``: index or UUID as CUDA_VISIBLE_DEVICES takes it; ``kind``: "gpu" or "mig-PROFILE"."""

    id: str
    kind: str = "gpu"
    healthy: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One running (or starting, draining, failed) copy of a service.

    ``created_s``: when its start was asked for; ``ready_s``: when it was first ready, None before.
    ``metrics_url``: its metrics page, None while it has no address. ``restarts``: failed starts or crashes so far.
    A FAILED replica waits for its next start and is no capacity.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The replica count last asked for, by service and variant, as the cluster holds it.

    ``foreign_owner``: who else writes it, None while we are its only writer.
    """

    service: ServiceId
    variant: str
    replicas: int
    foreign_owner: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """All of it at one moment."""

    at_s: float
    devices: tuple[Device, ...]
    replicas: tuple[Replica, ...]
    targets: tuple[Target, ...]
