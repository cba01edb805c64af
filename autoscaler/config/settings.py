"""What a configuration file comes to: frozen values, each of the type that the part which uses it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from adapters.local.journal import Retention
from adapters.local.template import GatewaySettings, ReplicaTemplate, RoutePolicy
from adapters.prometheus.settings import PrometheusSettings
from adapters.serving.auth import ApiSettings
from autoscaler.config.document import Plain, write_document
from autoscaler.config.kubernetes_settings import KubernetesSettings
from autoscaler.domain.cluster import Device
from autoscaler.domain.params import Params
from autoscaler.domain.service import DeviceRequest, Service, ServiceId, Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDevices:
    """A variant whose devices the file leaves open, and how many its command spreads over."""

    service: ServiceId
    variant: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of a configuration.

    ``templates``: one for each variant of each service. ``devices``: those declared, None where they are to be found
    on the machine. ``open_devices``: what ``settled`` has to decide once the devices are known. ``kubernetes``: how to
    work in a cluster, where services, templates and routes are none; None on a machine by itself. ``prometheus``: what
    replicas are read through, None where they are read directly. ``warnings``: what is allowed but hardly meant.
    ``plain``: the file as plain values with every default filled in and secrets hidden.
    """

    services: tuple[Service, ...]
    templates: tuple[ReplicaTemplate, ...]
    routes: tuple[RoutePolicy, ...]
    devices: tuple[Device, ...] | None
    open_devices: tuple[OpenDevices, ...]
    params: Params
    gateway: GatewaySettings
    api: ApiSettings
    state_dir: Path
    retention: Retention
    stop_replicas_on_exit: bool
    kubernetes: KubernetesSettings | None = None
    prometheus: PrometheusSettings | None = None
    warnings: tuple[str, ...] = ()
    plain: Plain = field(default=None, repr=False, compare=False)

    @property
    def effective(self) -> str:
        """The file as YAML with every default filled in and secrets hidden."""
        return write_document(self.plain)

    def settled(self, devices: Sequence[Device]) -> Settings:
        """With the open devices decided by what the inventory has, and warnings where it has too little.

        A variant that leaves its devices open gets whole GPUs where there are any; else the only kind there is; else
        none.
        """
        kinds = {device.kind for device in devices}
        kind = "gpu" if "gpu" in kinds else next(iter(kinds)) if len(kinds) == 1 else None
        chosen = {
            (each.service, each.variant): DeviceRequest(kind=kind, count=each.count)
            for each in self.open_devices
            if kind is not None
        }
        warnings = list(self.warnings)
        if kind is None and kinds and self.open_devices:
            names = ", ".join(sorted({each.service for each in self.open_devices}))
            warnings.append(
                f"{names}: say devices.kind, the inventory has {', '.join(sorted(kinds))}; until then its replicas "
                "are given no device"
            )
        templates = tuple(_with_devices(template, chosen) for template in self.templates)
        variants = {(template.service, template.variant.name): template.variant for template in templates}
        services = tuple(
            replace(service, variants=tuple(variants[service.id, variant.name] for variant in service.variants))
            for service in self.services
        )
        warnings += [text for service in services for text in device_warnings(service, devices)]
        return replace(
            self,
            services=services,
            templates=templates,
            devices=tuple(devices),
            open_devices=(),
            warnings=tuple(dict.fromkeys(warnings)),
        )


def device_warnings(service: Service, devices: Sequence[Device]) -> list[str]:
    """What of a service's wishes these devices can never carry."""
    warnings: list[str] = []
    reachable = 0
    for variant in service.variants:
        request = variant.devices
        if request is None:
            return warnings
        have = sum(1 for device in devices if device.kind == request.kind)
        reachable += have // request.count
        if have < request.count:
            warnings.append(
                f"{service.id}: variant {variant.name} needs {request.count} of {request.kind}, "
                f"the inventory has {have}: it can never start"
            )
    if 0 < reachable < service.bounds.max_replicas:
        warnings.append(
            f"{service.id}: maxReplicas is {service.bounds.max_replicas}, the inventory carries {reachable}"
        )
    return warnings


def _with_devices(template: ReplicaTemplate, chosen: dict[tuple[ServiceId, str], DeviceRequest]) -> ReplicaTemplate:
    request = chosen.get((template.service, template.variant.name))
    if request is None:
        return template
    variant: Variant = replace(template.variant, devices=request)
    return replace(template, variant=variant)
