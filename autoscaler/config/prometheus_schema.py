"""The keys of a Prometheus that the replicas are read through. Documentation as in ``schema``."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from adapters.prometheus.settings import HistorySettings, PrometheusSettings
from autoscaler.config.fields import EnvName, FileName, Host, Section, default_of
from autoscaler.config.units import Duration

_SECRET: dict[str, Any] = {"x-secret": True}
SecretText = Annotated[str, Field(min_length=1, max_length=16_384, json_schema_extra=_SECRET)]
ShortTime = Annotated[float, Duration(above_s=0.0, at_most_s=60.0)]
BaseUrl = Annotated[
    str,
    Field(
        pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$",
        max_length=2048,
        json_schema_extra={"x-form": "an http:// or https:// address without user, query and fragment"},
    ),
]
LabelName = Annotated[
    str,
    Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$", max_length=128, json_schema_extra={"x-form": "the name of a label"}),
]
LabelValues = Annotated[
    dict[LabelName, Annotated[str, Field(max_length=1024)]],
    Field(max_length=32, json_schema_extra={"x-form": "a mapping of label names to text"}),
]
Headers = Annotated[
    dict[
        Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$", max_length=128)],
        Annotated[str, Field(pattern=r"^[ -~]*$", max_length=4096)],
    ],
    Field(max_length=32, json_schema_extra={"x-form": "a mapping of header names to text", "x-secret": True}),
]


class BasicAuthSection(Section):
    """Name and password."""

    username: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^:]*$")]
    """Name, without a colon."""
    password: SecretText | None = None
    """The password. Better kept in a file or in the environment."""
    password_file: FileName | None = None
    """File that holds it; read for each query, so that it may be exchanged."""
    password_env: EnvName | None = None
    """Environment variable that holds it."""


class PrometheusTlsSection(Section):
    """How https is spoken."""

    ca_file: FileName | None = None
    """Authorities (PEM) to trust in place of the system's."""
    certificate_file: FileName | None = None
    """Certificate (PEM) to show. Read again when it changes, as the key and the authorities are."""
    key_file: FileName | None = None
    """Its private key (PEM)."""
    server_name: Host | None = None
    """Name that the server's certificate must bear. Unset: the one in the URL."""
    insecure_skip_verify: bool = False
    """On: whoever answers is trusted, and is shown the credentials."""


class HistorySection(Section):
    """Past demand, to begin the forecasts with where the controller has no memory of a service."""

    period: Annotated[float, Duration(at_most_s=31 * 86400.0)] = default_of(HistorySettings, "period_s")
    """How far back; 0s: none."""
    step: Annotated[float, Duration(at_least_s=60.0, at_most_s=300.0)] = default_of(HistorySettings, "step_s")
    """Time over which each mean is taken. At least four times as long as between two scrapes."""


class PrometheusSection(Section):
    """A Prometheus, or what answers its queries as one does (Thanos, Mimir), to read the replicas through."""

    url: BaseUrl
    """What stands before /api/v1, such as http://prometheus.monitoring:9090 or https://mimir.example/prometheus."""
    basic_auth: BasicAuthSection | None = None
    """Name and password to show."""
    bearer_token: SecretText | None = None
    """Token to show. Better kept in a file or in the environment."""
    bearer_token_file: FileName | None = None
    """File that holds the token; read for each query, so that it may be exchanged."""
    bearer_token_env: EnvName | None = None
    """Environment variable that holds the token."""
    tenant: Annotated[str, Field(min_length=1, max_length=150, pattern=r"^[!-~]+$")] | None = None
    """Tenant of Mimir or Cortex: the header X-Scope-OrgID."""
    headers: Headers = Field(default={})
    """Further headers, such as THANOS-TENANT."""
    tls: PrometheusTlsSection = PrometheusTlsSection()
    """How https is spoken."""
    matchers: LabelValues = Field(default={})
    """Labels with the value that every series has, where one Prometheus knows several clusters: ``cluster: prod``."""
    replica_labels: list[LabelName] = Field(
        default=list(default_of(PrometheusSettings, "replica_labels")), max_length=32
    )
    """Labels in which two Prometheis that scrape the same differ."""
    max_age: Annotated[float, Duration(at_least_s=1.0, at_most_s=300.0)] = default_of(PrometheusSettings, "max_age_s")
    """Age of the oldest scrape that counts as present. At least twice the time between two scrapes."""
    timeout: ShortTime = default_of(PrometheusSettings, "timeout_s")
    """Time for one query; a round of them takes at most twice as long."""
    max_connections: int = Field(default=default_of(PrometheusSettings, "max_connections"), ge=1, le=64)
    """Queries at a time."""
    replicas_per_query: int = Field(default=default_of(PrometheusSettings, "replicas_per_query"), ge=1, le=1000)
    """Replicas that one query asks for."""
    history: HistorySection = HistorySection()
    """Past demand at the start."""
