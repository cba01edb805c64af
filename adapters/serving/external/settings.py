"""Where the external metrics API listens, and with which certificate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalMetricsSettings:
    """``port`` 0 takes a free one; ``host`` "::" takes IPv4 too where the system does both.

    ``certificate_file``, ``key_file``: PEM; the certificate must name SERVICE.NAMESPACE.svc of the APIService. Both
    are read again when they change. ``audiences``: what bearer tokens must be meant for; empty: the API server.
    ``max_connections``: each takes about 0.1 MB; beyond it those make room that aren't the front proxy's.
    """

    host: str = "0.0.0.0"
    port: int = 6443
    certificate_file: Path
    key_file: Path
    audiences: tuple[str, ...] = ()
    max_connections: int = 1024

    def __post_init__(self) -> None:
        if not self.host or any(letter.isspace() for letter in self.host):
            raise ValueError(f"externalMetrics.host: must be one address such as 0.0.0.0 or ::, got {self.host!r}")
        if not 0 <= self.port <= 65535:
            raise ValueError(f"externalMetrics.port: must lie in [0, 65535] (0 takes a free port), got {self.port}")
        if self.max_connections < 1:
            raise ValueError(f"externalMetrics.maxConnections: must be at least 1, got {self.max_connections}")
