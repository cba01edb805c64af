"""Sections of a file without problems -> frozen settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adapters.local.journal import Retention
from adapters.local.template import GatewaySettings, ReplicaTemplate, RoutePolicy
from adapters.serving.auth import ApiSettings
from autoscaler.config.command import HIDDEN, is_secret_name, parallel_devices, without_secrets
from autoscaler.config.document import Plain
from autoscaler.config.kubernetes_rules import LOCAL_KEYS, kubernetes_settings
from autoscaler.config.prometheus_building import hide_secrets, prometheus_settings
from autoscaler.config.rules import effective_variants, service_models, warnings
from autoscaler.config.scaling_building import service_of, slo_of, variant_of
from autoscaler.config.schema import FileSection
from autoscaler.config.service_schema import DevicesSection, ServiceSection, VariantSection
from autoscaler.config.settings import OpenDevices, Settings, device_warnings
from autoscaler.domain.cluster import Device
from autoscaler.domain.params import Params
from autoscaler.domain.service import DeviceRequest, Service, ServiceId, Variant

_SLOW_INTERVAL_S, _FAST_INTERVAL_S, _FAST_BELOW_STARTUP_S = 15.0, 5.0, 90.0


def build_settings(file: FileSection, *, folder: Path, api: ApiSettings) -> Settings:
    """The settings of a file that stands in ``folder``; relative paths start there."""
    services = tuple(_service(section) for section in file.services)
    devices = file.inventory.devices
    declared = None if devices is None else tuple(Device(id=each.id, kind=each.kind) for each in devices)
    told = list(warnings(file.services))
    if declared is not None:
        told += [text for service in services for text in device_warnings(service, declared)]
    interval_s = _interval_s(file)
    return Settings(
        services=services,
        templates=tuple(
            _template(section, each, folder) for section in file.services for each in effective_variants(section)
        ),
        routes=tuple(_route(section) for section in file.services),
        devices=declared,
        open_devices=tuple(
            OpenDevices(service=ServiceId(section.name), variant=each.name, count=parallel_devices(each.command or ()))
            for section in file.services
            for each in effective_variants(section)
            if each.devices is None
        ),
        params=Params(
            interval_s=interval_s, forecasting=file.forecast.enabled, initial_quantile=file.forecast.quantile
        ),
        gateway=GatewaySettings(
            host=file.gateway.host,
            port=file.gateway.port,
            max_body_bytes=file.gateway.max_body,
            connect_timeout_s=file.gateway.connect_timeout,
        ),
        api=api,
        state_dir=resolve_path(file.state_dir, folder),
        retention=Retention(
            decisions_s=file.retention.decisions,
            inputs_s=file.retention.inputs,
            max_bytes=file.retention.max_size,
        ),
        stop_replicas_on_exit=file.stop_replicas_on_exit,
        kubernetes=None if file.kubernetes is None else kubernetes_settings(file.kubernetes, folder),
        prometheus=None if file.prometheus is None else prometheus_settings(file.prometheus, folder),
        warnings=tuple(told),
        plain=_plain(file, interval_s),
    )


def resolve_path(name: str, folder: Path) -> Path:
    """A path of the file: ``~`` is the home folder, a relative one starts at the file's folder."""
    return folder / Path(name).expanduser()


def _interval_s(file: FileSection) -> float:
    if file.interval_seconds is not None:
        return file.interval_seconds
    soonest_s = min((service.startup for service in file.services), default=_FAST_BELOW_STARTUP_S)
    return _FAST_INTERVAL_S if soonest_s < _FAST_BELOW_STARTUP_S else _SLOW_INTERVAL_S


def _service(section: ServiceSection) -> Service:
    variants = tuple(_variant(each) for each in effective_variants(section))
    return service_of(ServiceId(section.name), section, variants)


def _variant(section: VariantSection) -> Variant:
    return variant_of(section, devices=_devices(section.devices))


def _devices(section: DevicesSection | None) -> DeviceRequest | None:
    if section is None or section.count == 0:
        return None
    return DeviceRequest(kind=section.kind, count=section.count)


def _template(section: ServiceSection, variant: VariantSection, folder: Path) -> ReplicaTemplate:
    return ReplicaTemplate(
        service=ServiceId(section.name),
        variant=_variant(variant),
        command=tuple(variant.command or ()),
        env=tuple(sorted(variant.env.items())),
        cwd=None if section.cwd is None else str(resolve_path(section.cwd, folder)),
        model=service_models(section)[0],
        ready_path=section.ready_path,
        metrics_path=section.metrics_path,
        grace_period_s=section.grace_period,
        start_deadline_s=section.start_deadline,
    )


def _route(section: ServiceSection) -> RoutePolicy:
    return RoutePolicy(
        service=ServiceId(section.name),
        models=service_models(section),
        slo=slo_of(section.slo),
        max_waiting=section.requests.max_waiting,
        max_wait_s=section.requests.max_wait,
        request_timeout_s=section.requests.timeout,
    )


def _plain(file: FileSection, interval_s: float) -> Plain:
    """Values that mean the same file with nothing left to a default, save for what is hidden."""
    plain: dict[str, Any] = file.model_dump(mode="json", by_alias=True)
    plain["intervalSeconds"] = interval_s
    if plain["api"]["token"] is not None:
        plain["api"]["token"] = HIDDEN
    if plain["prometheus"] is not None:
        hide_secrets(plain["prometheus"])
    if file.kubernetes is not None:
        for key in ("services", *LOCAL_KEYS.values()):
            plain.pop(key, None)
    for service, section in zip(plain.get("services", ()), file.services, strict=True):
        service["model"] = list(service_models(section))
        for replica in (service, *service["variants"]):
            _hide(replica)
    return plain


def _hide(replica: dict[str, Plain]) -> None:
    command, env = replica["command"], replica["env"]
    if isinstance(command, list):
        replica["command"] = list(without_secrets([str(word) for word in command]))
    if isinstance(env, dict):
        replica["env"] = {name: HIDDEN if is_secret_name(name) else value for name, value in env.items()}
