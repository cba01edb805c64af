"""Which Prometheus is asked, what it is shown, and within which bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

TENANT_HEADER = "X-Scope-OrgID"


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A secret by its value, or in a file that is read again whenever it is needed: whoever rotates it writes it."""

    value: str | None = field(default=None, repr=False)
    file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """``ca_file``: authorities (PEM) to trust in place of the system's. ``certificate_file``, ``key_file``: to show.

    ``server_name``: that the server's certificate must name, None for the URL's. ``verify`` False trusts anybody.
    """

    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    server_name: str | None = None
    verify: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySettings:
    """Past demand: ``period_s`` of it, as means over ``step_s``. A period of 0 asks for none.

    A step holds four scrapes or more: with fewer, ``rate`` misses some of them.
    """

    period_s: float = 7 * 86400.0
    step_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusSettings:
    """How a Prometheus is asked.

    ``url``: what stands before ``/api/v1``. ``matchers``: label values that every series has, such as the cluster's.
    ``replica_labels``: labels in which several Prometheis that scrape the same differ, and nothing else.
    ``max_age_s``: age of the oldest scrape that still counts as present. ``timeout_s``: for one query; a round takes
    at most twice that. ``max_connections``: queries at a time. ``replicas_per_query``, ``max_answer_bytes``: bounds
    of one query.
    """

    url: str
    username: Secret | None = None
    password: Secret | None = None
    bearer_token: Secret | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: TlsSettings = TlsSettings()
    matchers: Mapping[str, str] = field(default_factory=dict)
    replica_labels: tuple[str, ...] = ("prometheus_replica",)
    max_age_s: float = 45.0
    timeout_s: float = 5.0
    max_connections: int = 4
    replicas_per_query: int = 50
    max_answer_bytes: int = 64 * 1024 * 1024
    history: HistorySettings = HistorySettings()
