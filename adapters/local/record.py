"""What is remembered of one replica, in memory and in the state file."""

from __future__ import annotations

from dataclasses import dataclass

from adapters.local.process import ProcessId
from autoscaler.domain.cluster import Phase, Replica
from autoscaler.domain.service import ServiceId

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRecord:
    """One replica. It holds its devices and its ports for as long as they are named here.

    ``metrics_port``: of its metrics page, and ``grpc_port``: for gRPC, where its server has such ports beside ``port``.
    ``process`` None: not started yet, or nothing of it lives any more. ``created_s``: when this start was made (of a
    replica that still waits for a device: when it was asked for). ``start_watched``: we saw it before it was ready, so
    the time of becoming ready is known. ``restarts``: failed starts and crashes so far; ``failures``: those since it
    last ran stably. ``retry_at_s``: when a FAILED one starts again. ``unready_since_s``/``refusals``: since when
    readiness does not answer 200, and how many connections were refused in a row.
    ``drain_since_s``: since when a DRAINING one may finish its requests, None where it has none to finish.
    ``term_s``: when it was asked to end.
    """

    name: str
    service: ServiceId
    variant: str
    phase: Phase
    created_s: float
    grace_period_s: float
    ready_path: str
    metrics_path: str
    port: int | None = None
    metrics_port: int | None = None
    grpc_port: int | None = None
    devices: tuple[str, ...] = ()
    process: ProcessId | None = None
    ready_s: float | None = None
    start_watched: bool = True
    restarts: int = 0
    failures: int = 0
    retry_at_s: float | None = None
    unready_since_s: float | None = None
    refusals: int = 0
    drain_since_s: float | None = None
    term_s: float | None = None
    detail: str = ""

    @property
    def url(self) -> str | None:
        """Scheme, host and port; None while it has no port."""
        return None if self.port is None else f"http://{HOST}:{self.port}"

    @property
    def held_ports(self) -> tuple[int, ...]:
        """What nobody else may be given."""
        if self.port is None:
            return ()
        return tuple(port for port in (self.port, self.metrics_port, self.grpc_port) if port is not None)

    @property
    def metrics_url(self) -> str | None:
        """Its metrics page; None while it has no port."""
        if self.port is None:
            return None
        return f"http://{HOST}:{self.metrics_port or self.port}{self.metrics_path}"

    def replica(self) -> Replica:
        """As the controller sees it. The metrics page counts from the moment of being ready: before, there is none."""
        serves = self.phase in (Phase.READY, Phase.DRAINING) and self.url is not None
        return Replica(
            name=self.name,
            service=self.service,
            variant=self.variant,
            phase=self.phase,
            created_s=self.created_s,
            ready_s=self.ready_s,
            devices=self.devices,
            metrics_url=self.metrics_url if serves else None,
            http_port=self.port if serves and self.metrics_port is not None else None,
            grpc_port=self.grpc_port if serves else None,
            restarts=self.restarts,
            detail=self.detail,
            failing_probe=self.detail if self.phase is Phase.READY and self.unready_since_s is not None else None,
        )
