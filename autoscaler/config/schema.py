"""The configuration file, key by key. The docstring of a key is its documentation, in the schema and in the docs.

Ranges stand on the keys; rules that join several keys are in ``rules``. Defaults are those of the types that the
settings are made of.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema, core_schema

from adapters.local.journal import Retention
from adapters.local.template import GatewaySettings
from adapters.serving.auth import ApiSettings
from autoscaler.config.fields import (
    DeviceId,
    DeviceKind,
    EnvName,
    FileName,
    Host,
    Port,
    Section,
    default_of,
    needs_one_of,
)
from autoscaler.config.kubernetes_schema import KubernetesSection
from autoscaler.config.prometheus_schema import PrometheusSection
from autoscaler.config.service_schema import ServiceSection
from autoscaler.config.units import ByteSize, Duration
from autoscaler.domain.params import Params

BodySize = Annotated[int, ByteSize(at_least=1024, at_most=16 * 2**30)]
KeptTime = Annotated[float, Duration(at_least_s=600.0)]
StateSize = Annotated[int, ByteSize(at_least=2**20, at_most=2**40)]
ShortTime = Annotated[float, Duration(above_s=0.0, at_most_s=60.0)]


class DeviceSection(Section):
    """One device; its id alone means a whole GPU."""

    id: DeviceId
    """Index or UUID, as CUDA_VISIBLE_DEVICES takes it."""
    kind: DeviceKind = "gpu"
    """Kind of device: "gpu", or a MIG profile such as "mig-1g.10gb"."""

    @model_validator(mode="before")
    @classmethod
    def _id_alone(cls, value: object) -> object:
        return {"id": value} if isinstance(value, str | int) and not isinstance(value, bool) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        mapping = handler.resolve_ref_schema(handler(schema))
        bare_id = mapping["properties"]["id"]["anyOf"]
        form = {"x-form": "a device's index or UUID, or a mapping of id and kind"}
        return {"description": mapping.pop("description"), "anyOf": [*bare_id, mapping], **form}


class _OrAuto:
    """Marks a key for which ``auto`` means the same as leaving it out."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(
            lambda value: None if value == "auto" else value, handler(source)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        inner = handler(schema)
        return {"anyOf": [{"const": "auto"}, *inner["anyOf"]], "x-form": "auto, or a list of devices"}


class InventorySection(Section):
    """What this machine has."""

    devices: Annotated[Annotated[list[DeviceSection], Field(max_length=1024)] | None, _OrAuto()] = None
    """The devices that may be used. Unset or auto: those that NVML finds."""


class ForecastSection(Section):
    """Prediction of the demand at the time at which a replica started now would be ready."""

    enabled: bool = default_of(Params, "forecasting")
    """Off: replicas follow the measured load alone."""
    quantile: float = Field(
        default=default_of(Params, "initial_quantile"),
        ge=default_of(Params, "min_quantile"),
        le=default_of(Params, "max_quantile"),
    )
    """Quantile of the forecast to begin with; from then on the attained share of requests in SLO tunes it."""


class GatewaySection(Section):
    """The server in front of the replicas."""

    host: Host = default_of(GatewaySettings, "host")
    """Address to listen on."""
    port: Port = default_of(GatewaySettings, "port")
    """Port to listen on; 0: any free one."""
    max_body: Annotated[int, ByteSize(at_least=1024, at_most=16 * 2**30)] = default_of(
        GatewaySettings, "max_body_bytes"
    )
    """Largest request body."""
    connect_timeout: ShortTime = default_of(GatewaySettings, "connect_timeout_s")
    """How long to try one replica before the next."""


class ApiSection(Section):
    """The HTTP API and the dashboard. On an address other than loopback it needs a token, or ``open: true``."""

    host: Host = default_of(ApiSettings, "host")
    """Address to listen on."""
    port: Port = default_of(ApiSettings, "port")
    """Port to listen on; 0: any free one."""
    token: Annotated[str, Field(min_length=1, max_length=4096, json_schema_extra={"x-secret": True})] | None = None
    """The token that readers must show. Better kept in a file or in the environment."""
    token_file: FileName | None = None
    """File that holds the token."""
    token_env: EnvName | None = None
    """Environment variable that holds the token."""
    open: bool = default_of(ApiSettings, "open")
    """Whoever reaches the address may read."""
    allowed_hosts: list[Host] = Field(default=[], max_length=100)
    """Further names by which a reverse proxy or a name server of one's own calls this API."""


class RetentionSection(Section):
    """How much of the past the state keeps; the oldest goes first."""

    decisions: KeptTime = default_of(Retention, "decisions_s")
    """How long decisions are kept, for `explain`."""
    inputs: KeptTime = default_of(Retention, "inputs_s")
    """How long the inputs of decisions are kept, for `replay`."""
    max_size: StateSize = default_of(Retention, "max_bytes")
    """Size of the state file at which the oldest goes early."""


class FileSection(Section):
    """The configuration of gpu-autoscaler: services on this machine, or a cluster's by ``kubernetes``."""

    model_config = ConfigDict(json_schema_extra=needs_one_of(("services",), ("kubernetes",)))

    services: list[ServiceSection] = Field(default=[], min_length=1, max_length=10_000)
    """The services to scale. At least one, unless ``kubernetes`` is given."""
    kubernetes: KubernetesSection | None = None
    """Given, even as ``{}``: the controller works in a cluster, and services are InferenceAutoscaler resources."""
    prometheus: PrometheusSection | None = None
    """Given: replicas are read through this Prometheus. Unset: each replica's metrics page is fetched directly."""
    inventory: InventorySection = InventorySection()
    """What this machine has."""
    forecast: ForecastSection = ForecastSection()
    """Prediction of demand."""
    gateway: GatewaySection = GatewaySection()
    """The server in front of the replicas."""
    api: ApiSection = ApiSection()
    """HTTP API and dashboard."""
    interval_seconds: Annotated[float, Field(ge=0.1, le=3600)] | None = None
    """Time between decisions. Unset: 15, or 5 where a service starts in less than 90 s."""
    state_dir: FileName = "state"
    """Folder for the state (history, what was learned, decisions) and the replicas' logs."""
    retention: RetentionSection = RetentionSection()
    """How much of the past the state keeps."""
    stop_replicas_on_exit: bool = True
    """Off: replicas go on serving after a clean exit, and the next start adopts them."""
