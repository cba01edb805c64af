"""An InferenceAutoscaler as the API server tells it -> values of the domain, or all that is wrong with it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from pydantic import ValidationError

from autoscaler.config.document import Document, Path, Plain
from autoscaler.config.problems import failed_keys, path_text, value_problems
from autoscaler.config.resource_rules import ReadResource, name_findings, resource_findings, target_of
from autoscaler.config.resource_schema import (
    GatewayRefSection,
    ResourceSection,
    ResourceSpecSection,
    ResourceVariantSection,
)
from autoscaler.config.scaling_building import service_of, variant_of, with_defaults
from autoscaler.config.scaling_rules import Finding, ReadScaling
from autoscaler.config.scaling_schema import KindSection
from autoscaler.config.shape import Key, root_of, section_schema
from autoscaler.domain.resource import (
    GATEWAY_LABELS,
    AutoscalerResource,
    GatewayRef,
    MetricsEndpoint,
    RefusedResource,
    ResourceProblem,
    ServedRequests,
    TargetRef,
    VariantSource,
)
from autoscaler.domain.service import ServiceId

DEFAULT_VARIANT = "default"
_BASE: Path = ("spec",)
# Stand-ins for required keys that were refused, so that the rules can still look at the rest.
_STAND_IN: dict[str, Plain] = {"slo": {"e2e": 1}}


def parse_resource(raw: Mapping[str, object]) -> AutoscalerResource | RefusedResource:
    """The resource of an API object (JSON as parsed), or every problem of its spec. Raises nothing.

    Problems are told in the words of the configuration file's, with paths such as ``spec.slo.ttft``.
    """
    header = _Header(raw)
    section, problems = _read_spec(raw.get("spec"))
    problems += _told(name_findings(header.name))
    if section is None or problems:
        return RefusedResource(
            namespace=header.namespace,
            name=header.name,
            uid=header.uid,
            generation=header.generation,
            problems=tuple(problems),
        )
    kinds = _kinds(section)
    metrics = section.metrics
    service = service_of(
        ServiceId(f"{header.namespace}/{header.name}"),
        section,
        [variant_of(with_defaults(kind, section)) for kind, _ in kinds],
    )
    return AutoscalerResource(
        namespace=header.namespace,
        name=header.name,
        uid=header.uid,
        generation=header.generation,
        created_s=header.created_s,
        labels=header.labels,
        mode=section.mode,
        service=replace(service, unschedulable_deadline_s=section.unschedulable_deadline),
        sources=tuple(VariantSource(variant=kind.name, target=target) for kind, target in kinds),
        metrics=MetricsEndpoint(port=metrics.port, path=metrics.path, scheme=metrics.scheme),
        gateway=None if section.gateway is None else _gateway(section.gateway),
        requests=_requests(section),
    )


def _gateway(section: GatewayRefSection) -> GatewayRef:
    labels = GATEWAY_LABELS if section.selector is None else tuple(sorted(section.selector.match_labels.items()))
    return GatewayRef(
        kind=section.type,
        labels=labels,
        namespace=section.namespace,
        port=section.port,
        path=section.path,
        match=tuple(sorted(section.match_labels.items())),
    )


def _requests(section: ResourceSpecSection) -> ServedRequests:
    requests = section.requests
    return ServedRequests(
        models=tuple(section.models),
        port=requests.port,
        scheme=requests.scheme,
        max_waiting=requests.max_waiting,
        max_wait_s=requests.max_wait,
        timeout_s=requests.timeout,
    )


@functools.cache
def resource_keys() -> Key:
    """The keys of the resource, to be walked."""
    return root_of(section_schema(ResourceSection))


def _read_spec(spec: object) -> tuple[ResourceSpecSection | None, list[ResourceProblem]]:
    document = Document(data={"spec": _plain(spec)}, values={}, keys={}, faults=())
    if not isinstance(spec, Mapping):
        return None, [ResourceProblem(path="spec", message="is missing: what is asked of the autoscaler")]
    problems: list[ResourceProblem] = []
    refused: frozenset[str] = frozenset()
    try:
        section = ResourceSpecSection.model_validate(spec)
    except ValidationError as error:
        told = value_problems(document, error, _BASE, top=resource_keys())
        problems += [ResourceProblem(path=each.path, message=each.message) for each in told]
        refused = failed_keys(document, error, _BASE)
        kept = {key: value for key, value in spec.items() if key not in refused}
        section = ResourceSpecSection.model_validate({**_STAND_IN, **kept})
    read: ReadResource = ReadScaling(base=_BASE, section=section, refused=refused)
    return section, [*problems, *_told(resource_findings(read))]


def _told(findings: Iterable[Finding]) -> Iterator[ResourceProblem]:
    return (ResourceProblem(path=path_text(path), message=message) for path, message in findings)


def _kinds(section: ResourceSpecSection) -> list[tuple[KindSection, TargetRef]]:
    """Its kinds of replica with what runs them; one called "default" where there is one targetRef."""
    variants: list[ResourceVariantSection] = section.variants or []
    if section.target_ref is not None:
        return [(KindSection(name=DEFAULT_VARIANT), target_of(section.target_ref))]
    return [(variant, target_of(variant.target_ref)) for variant in variants]


def _plain(value: object) -> Plain:
    """JSON as parsed, whatever kinds of mapping and list it is made of."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)


class _Header:
    """The metadata that is used, whatever shape it has: the API server vouches for it."""

    def __init__(self, raw: Mapping[str, object]) -> None:
        given = raw.get("metadata")
        self._metadata: Mapping[str, object] = given if isinstance(given, Mapping) else {}
        self.namespace = self._text("namespace")
        self.name = self._text("name")
        self.uid = self._text("uid")
        generation = self._metadata.get("generation")
        self.generation = generation if isinstance(generation, int) else 0
        labels = self._metadata.get("labels")
        listed = labels.items() if isinstance(labels, Mapping) else ()
        self.labels = tuple(sorted((str(key), str(value)) for key, value in listed))

    @property
    def created_s(self) -> float:
        """Seconds since the epoch; 0 where it is not told."""
        try:
            return datetime.fromisoformat(self._text("creationTimestamp")).timestamp()
        except ValueError:
            return 0.0

    def _text(self, key: str) -> str:
        value = self._metadata.get(key)
        return value if isinstance(value, str) else ""
