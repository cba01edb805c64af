"""Rules that join several keys. Each is told at the key that has to change; a key already refused is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autoscaler.config.command import PLACEHOLDERS, model_names, placeholders, unknown_placeholder
from autoscaler.config.document import Path
from autoscaler.config.kubernetes_rules import kubernetes_findings
from autoscaler.config.prometheus_building import prometheus_findings
from autoscaler.config.scaling_building import with_defaults
from autoscaler.config.scaling_rules import Finding, ReadScaling, duplicates, scaling_findings, scaling_warnings
from autoscaler.config.schema import FileSection, InventorySection
from autoscaler.config.service_schema import DevicesSection, ServiceSection, VariantSection

ReadService = ReadScaling[ServiceSection]
_DEFAULT_VARIANT = VariantSection(name="default")


def effective_variants(service: ServiceSection) -> tuple[VariantSection, ...]:
    """Its variants with the service's values where they give none; one called "default" where none is listed."""
    variants = service.variants or (_DEFAULT_VARIANT,)
    return tuple(
        with_defaults(variant, service).model_copy(
            update={
                "devices": variant.devices or service.devices,
                "command": variant.command or service.command,
                "env": {**service.env, **variant.env},
            }
        )
        for variant in variants
    )


def service_models(service: ServiceSection) -> tuple[str, ...]:
    """The names by which clients ask for it: those given, those its commands tell, or its own."""
    if service.model:
        return tuple(service.model)
    told = [name for variant in effective_variants(service) for name in model_names(variant.command or ())]
    return tuple(dict.fromkeys(told)) or (service.name,)


def service_findings(service: ReadService) -> Iterator[Finding]:
    """What is wrong within one service."""
    yield from scaling_findings(service, service.section.variants)
    yield from _commands(service)


def file_findings(file: FileSection, services: Sequence[ReadService], refused: frozenset[str]) -> Iterator[Finding]:
    """What is wrong between services, or between sections. ``refused``: the sections that could not be read."""
    named = [service for service in services if service.reads("name")]
    yield from duplicates(
        ((service.section.name, service.path("name")) for service in named), "is the name of another service"
    )
    yield from _model_clashes([service for service in named if service.reads("command", "model", "variants")])
    if "inventory" not in refused:
        yield from _inventory_findings(file.inventory, services)
    yield from kubernetes_findings(file, refused)
    if "prometheus" not in refused:
        yield from prometheus_findings(file.prometheus)
    if file.kubernetes is None and refused.isdisjoint({"gateway", "api"}):
        yield from _port_clash(file)


def warnings(services: Sequence[ServiceSection]) -> Iterator[str]:
    """What is allowed but hardly meant."""
    for service in services:
        yield from (f"{service.name}: {text}" for text in scaling_warnings(service))


def _port_clash(file: FileSection) -> Iterator[Finding]:
    gateway, api = file.gateway, file.api
    hosts = {gateway.host, api.host}
    if gateway.port == api.port != 0 and (len(hosts) == 1 or hosts & {"0.0.0.0", "::"}):
        section, other = ("api", "gateway") if "port" in api.model_fields_set else ("gateway", "api")
        yield (section, "port"), f"{api.port} is the port of the {other} too; one of them has to move"


def _commands(service: ReadService) -> Iterator[Finding]:
    section = service.section
    if not service.reads("command", "env", "variants"):
        return
    misspelt = set()
    for texts, path in _command_texts(service):
        for name in dict.fromkeys(name for text in texts for name in placeholders(text)):
            if name not in PLACEHOLDERS:
                misspelt.add(path)
                yield path, unknown_placeholder(name)
    for index, variant in enumerate(effective_variants(section)):
        own = bool(section.variants) and section.variants[index].command is not None
        path = service.path("variants", index, "command") if own else service.path("command")
        if variant.command is None:
            where = service.path("variants", index) if section.variants else service.path()
            yield where, "command is missing: a command line, or the list of its words"
        elif path not in misspelt and "port" not in {
            name for text in (*variant.command, *variant.env.values()) for name in placeholders(text)
        }:
            yield path, "needs {port} in the command (or in env): each replica listens on a port of its own"


def _command_texts(service: ReadService) -> Iterator[tuple[Sequence[str], Path]]:
    section = service.section
    yield section.command or (), service.path("command")
    for name, text in section.env.items():
        yield (text,), service.path("env", name)
    for index, variant in enumerate(section.variants):
        yield variant.command or (), service.path("variants", index, "command")
        for name, text in variant.env.items():
            yield (text,), service.path("variants", index, "env", name)


def _model_clashes(services: Sequence[ReadService]) -> Iterator[Finding]:
    owners: dict[str, str] = {}
    for service in services:
        key = "model" if service.section.model else "command"
        for model in service_models(service.section):
            owner = owners.setdefault(model, service.section.name)
            if owner != service.section.name:
                clash = f"{owner} serves the model {model} too, so the gateway could not tell them apart"
                yield service.path(key), f"{clash}; give one of them another model name (key model)"


def _inventory_findings(inventory: InventorySection, services: Sequence[ReadService]) -> Iterator[Finding]:
    if inventory.devices is None:
        return
    devices = inventory.devices
    yield from duplicates(
        ((device.id, ("inventory", "devices", index)) for index, device in enumerate(devices)), "is listed"
    )
    kinds = sorted({device.kind for device in devices})
    for service in services:
        if not service.reads("devices", "variants"):
            continue
        asked: list[tuple[DevicesSection | None, Path]] = [(service.section.devices, service.path("devices"))]
        for index, variant in enumerate(service.section.variants):
            asked.append((variant.devices, service.path("variants", index, "devices")))
        for request, path in asked:
            if request is not None and request.count > 0 and request.kind not in kinds:
                have = f"has only {', '.join(kinds)}" if kinds else "is empty"
                yield path, f"asks for devices of kind {request.kind}, but inventory.devices {have}"
