"""How the replicas of one variant of a service are started, probed and stopped on this machine, and routed."""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.domain.service import ServiceId, Slo, Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaTemplate:
    """A command and how to tell that it is ready.

    ``command``: argv; the placeholders {host}, {port}, {metrics_port}, {grpc_port}, {name}, {service}, {variant},
    {model}, {devices} are filled in. A port of its own is given for each of the three that occurs.
    ``env``: added to the controller's environment, placeholders filled in too. ``ready_path``: 200 means ready; any
    other answer, and no answer, means not yet. ``grace_period_s``: how long a draining replica may finish its
    requests before TERM, and how long after TERM before KILL.
    """

    service: ServiceId
    variant: Variant
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    model: str | None = None
    ready_path: str = "/health"
    metrics_path: str = "/metrics"
    grace_period_s: float = 60.0
    start_deadline_s: float = 600.0

    def mentions(self, placeholder: str) -> bool:
        """Whether its command or its environment asks for that value."""
        texts = (*self.command, *(value for _, value in self.env))
        return any(f"{{{placeholder}}}" in text for text in texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutePolicy:
    """How the gateway treats one service.

    ``models``: model names in a request body that choose this service. ``max_waiting``/``max_wait_s``: requests held
    while no replica is ready, and how long, before 503 with Retry-After. ``request_timeout_s``: None sets no limit.
    """

    service: ServiceId
    models: tuple[str, ...]
    slo: Slo
    max_waiting: int = 1000
    max_wait_s: float = 900.0
    request_timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Where the gateway listens and what it accepts.

    ``metrics_port``: of its own pages (metrics, health), None where it has none; 0, as for ``port``: any free one.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    max_body_bytes: int = 64 * 1024 * 1024
    connect_timeout_s: float = 2.0
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None

    @property
    def addresses(self) -> tuple[str, int, str, int | None]:
        """What can only be changed by another start."""
        return self.host, self.port, self.metrics_host, self.metrics_port
