"""Rules that join several keys. Each is told at the key that has to change; a key already refused is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from autoscaler.config.command import PLACEHOLDERS, model_names, placeholders, unknown_placeholder
from autoscaler.config.document import Path
from autoscaler.config.profiles import profile_of
from autoscaler.config.schema import FileSection, InventorySection
from autoscaler.config.service_schema import (
    DevicesSection,
    IdleSection,
    ServiceSection,
    StepTimeSection,
    VariantSection,
)
from autoscaler.config.units import format_duration

Finding = tuple[Path, str]
_DEFAULT_VARIANT = VariantSection(name="default")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadService:
    """One service as far as it could be read; ``refused``: its keys that could not, which hold stand-ins."""

    index: int
    section: ServiceSection
    refused: frozenset[str]

    def path(self, *steps: str | int) -> Path:
        """The path of a key of this service."""
        return ("services", self.index, *steps)

    def reads(self, *keys: str) -> bool:
        """Whether all of these keys could be read."""
        return not self.refused.intersection(keys)


def effective_variants(service: ServiceSection) -> tuple[VariantSection, ...]:
    """Its variants with the service's values where they give none; one called "default" where none is listed."""
    variants = service.variants or (_DEFAULT_VARIANT,)
    return tuple(
        variant.model_copy(
            update={
                "cost": variant.cost if variant.cost is not None else service.cost,
                "devices": variant.devices or service.devices,
                "step_time": variant.step_time or service.step_time,
                "max_num_seqs": variant.max_num_seqs or service.max_num_seqs,
                "kv_tokens": variant.kv_tokens or service.kv_tokens,
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
    for rule in _SERVICE_RULES:
        yield from rule(service)


def file_findings(file: FileSection, services: Sequence[ReadService], refused: frozenset[str]) -> Iterator[Finding]:
    """What is wrong between services, or between sections. ``refused``: the sections that could not be read."""
    named = [service for service in services if service.reads("name")]
    yield from _duplicates(
        ((service.section.name, service.path("name")) for service in named), "is the name of another service"
    )
    yield from _model_clashes([service for service in named if service.reads("command", "model", "variants")])
    if "inventory" not in refused:
        yield from _inventory_findings(file.inventory, services)
    if refused.isdisjoint({"gateway", "api"}):
        yield from _port_clash(file)


def warnings(services: Sequence[ServiceSection]) -> Iterator[str]:
    """What is allowed but hardly meant."""
    for service in services:
        if service.min_replicas > 0 and service.idle != IdleSection():
            yield f"{service.name}: idle has no effect, minReplicas is {service.min_replicas}"
        if service.spare >= service.max_replicas:
            yield f"{service.name}: spare {service.spare} keeps it at maxReplicas {service.max_replicas} always"


def _port_clash(file: FileSection) -> Iterator[Finding]:
    gateway, api = file.gateway, file.api
    hosts = {gateway.host, api.host}
    if gateway.port == api.port != 0 and (len(hosts) == 1 or hosts & {"0.0.0.0", "::"}):
        section, other = ("api", "gateway") if "port" in api.model_fields_set else ("gateway", "api")
        yield (section, "port"), f"{api.port} is the port of the {other} too; one of them has to move"


def _bounds(service: ReadService) -> Iterator[Finding]:
    section = service.section
    if service.reads("minReplicas", "maxReplicas") and section.min_replicas > section.max_replicas:
        given = "max_replicas" in section.model_fields_set
        note = "" if given else " (its default; give maxReplicas too)"
        message = f"must be at most maxReplicas {section.max_replicas}{note}; got {section.min_replicas}"
        yield service.path("minReplicas"), message


def _deadline(service: ReadService) -> Iterator[Finding]:
    section = service.section
    if service.reads("startup", "startDeadline") and section.start_deadline < section.startup:
        key = "startDeadline" if "start_deadline" in section.model_fields_set else "startup"
        deadline, startup = format_duration(section.start_deadline), format_duration(section.startup)
        yield service.path(key), f"every start would fail: startDeadline {deadline} is shorter than startup {startup}"


def _variant_names(service: ReadService) -> Iterator[Finding]:
    if service.reads("variants"):
        variants = service.section.variants
        yield from _duplicates(
            ((variant.name, service.path("variants", index, "name")) for index, variant in enumerate(variants)),
            "is the name of another variant",
        )


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


def _step_times(service: ReadService) -> Iterator[Finding]:
    if not service.reads("stepTime", "variants"):
        return
    sections: list[tuple[StepTimeSection | None, Path]] = [(service.section.step_time, service.path("stepTime"))]
    for index, variant in enumerate(service.section.variants):
        sections.append((variant.step_time, service.path("variants", index, "stepTime")))
    for section, path in sections:
        if section is not None:
            yield from _step_time(section, path)


def _step_time(section: StepTimeSection, path: Path) -> Iterator[Finding]:
    terms = {"c": section.c, "d": section.d, "e": section.e, "a": section.a}
    missing = [name for name, value in terms.items() if value is None]
    if section.profile is not None:
        if len(missing) < len(terms):
            yield path, "give either a profile or the terms c, d, e, a; not both"
        else:
            try:
                profile_of(section.profile)
            except ValueError as error:
                yield (*path, "profile"), str(error)
    elif missing:
        yield path, f"needs a profile, or all of c, d, e, a; missing: {', '.join(missing)}"
    elif section.c == 0:
        yield (*path, "c"), "must be more than 0s"


def _duplicates(named: Iterator[tuple[str, Path]], message: str) -> Iterator[Finding]:
    seen: set[str] = set()
    for name, path in named:
        if name in seen:
            yield path, f"{name} {message} above"
        seen.add(name)


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
    yield from _duplicates(
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


_SERVICE_RULES: tuple[Callable[[ReadService], Iterator[Finding]], ...] = (
    _bounds,
    _deadline,
    _variant_names,
    _commands,
    _step_times,
)
