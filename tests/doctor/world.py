"""A cluster in which nothing is wrong, as raw objects to be spoilt by tests, and the facts made of it."""

from __future__ import annotations

import base64
import copy
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from adapters.engines.fetched import FetchedPage
from adapters.engines.reading_report import PageReport, report_page
from adapters.kubernetes.api_errors import NotFoundError
from adapters.kubernetes.raw_json import inner, written_moment
from adapters.kubernetes.resources import ResourceView
from adapters.kubernetes.status import publication_of
from adapters.kubernetes.target_kinds import TARGET_KINDS
from adapters.kubernetes.targets import Targeted, TargetProblem
from autoscaler.config.resource_crd import custom_resource_definition
from autoscaler.config.resource_reading import parse_resource
from autoscaler.doctor.facts import Certificate, ClockReading, ClusterFacts, GatewayLook, PageLook, ThroughPrometheus
from autoscaler.doctor.rights import Asked
from autoscaler.domain.reading import Unknown
from autoscaler.domain.resource import GATEWAY_LABELS, AutoscalerResource
from autoscaler.domain.service import ServiceId
from autoscaler.manifests import DEFAULT_KUBERNETES, KedaOptions, ScaledService, hpa_manifests, keda_manifests
from autoscaler.ports import PortError

Json = dict[str, Any]

NOW_S = 1_796_040_000.0
_SCRAPES = Path(__file__).parents[1] / "fixtures/scrapes"
PAGE = (_SCRAPES / "vllm_0.32_cpu_overloaded.prom").read_bytes()
IDLE_PAGE = (_SCRAPES / "vllm_0.32_cpu_idle.prom").read_bytes()
SUBJECT = "InferenceAutoscaler shop/chat"
_DEFINITION = json.dumps(custom_resource_definition())
_KINDS = {kind.kind: kind for kind in TARGET_KINDS}


def stamp(at_s: float) -> str:
    """As the API writes times."""
    return written_moment(at_s)


def meta(name: str, **more: Any) -> Json:
    """Metadata in namespace "shop"."""
    made = {"uid": f"uid-{name}", "resourceVersion": "7", "generation": 1, "creationTimestamp": stamp(NOW_S - 3600)}
    return {"name": name, "namespace": "shop", **made, **more}


@dataclass
class World:
    """Spoil any part; ``facts`` makes of it what the checks look at. PortErrors may stand in place of lists."""

    version: Any = field(default_factory=lambda: {"gitVersion": "v1.36.3"})
    skew_s: float = 0.0
    definition: Any = field(default_factory=lambda: json.loads(_DEFINITION))
    resource: Json = field(default_factory=lambda: resource("chat"))
    resources: Any = None
    deployment: Json = field(default_factory=lambda: copy.deepcopy(_DEPLOYMENT))
    targets: Targeted | None = None
    pods: Any = field(default_factory=lambda: [_pod("chat-1"), _pod("chat-2")])
    page: FetchedPage | Unknown = field(default_factory=lambda: FetchedPage(PAGE))
    hpas: Any = field(default_factory=list)
    scaled_objects: Any = field(default_factory=lambda: NotFoundError("no such kind"))
    vpas: Any = field(default_factory=lambda: NotFoundError("no such kind"))
    leases: Any = field(default_factory=lambda: [_lease()])
    nodes: Any = field(default_factory=lambda: [node("gpu-0")])
    quotas: Any = field(default_factory=list)
    limit_ranges: Any = field(default_factory=list)
    network_policies: Any = field(default_factory=list)
    budgets: Any = field(default_factory=list)
    api_service: Any = None
    services: dict[str, Any] = field(default_factory=dict)
    reads: dict[str, Any] = field(default_factory=dict)
    rights: Sequence[Asked] | PortError = ()
    prometheus: ThroughPrometheus | None = None
    gateways: dict[ServiceId, GatewayLook] = field(default_factory=dict)
    marked: dict[str, PortError | None] = field(default_factory=dict)
    certificates: Sequence[Certificate] = ()

    def facts(self) -> ClusterFacts:
        """Of all this."""
        raw = [self.resource] if self.resources is None else self.resources
        views = raw if isinstance(raw, PortError) else [_view(each) for each in raw]
        return ClusterFacts(
            now_s=NOW_S,
            address="https://cluster",
            version=self.version,
            clock=ClockReading(before_s=NOW_S, date_s=NOW_S + self.skew_s, after_s=NOW_S + 0.1),
            definition=self.definition,
            resources=views,
            targets=self._targets(views) if self.targets is None else self.targets,
            hpas=self.hpas,
            scaled_objects=self.scaled_objects,
            vpas=self.vpas,
            leases=self.leases,
            nodes=self.nodes,
            pods=self.pods,
            quotas=self.quotas,
            limit_ranges=self.limit_ranges,
            network_policies=self.network_policies,
            budgets=self.budgets,
            api_service=self.api_service,
            services=self.services,
            reads=self.reads,
            rights=self.rights,
            pages=self._pages(),
            prometheus=self.prometheus,
            gateways=self.gateways,
            marked=self.marked,
            certificates=self.certificates,
        )

    def _targets(self, views: Any) -> Targeted:
        found: dict[Any, Any] = {}
        kind = _KINDS["Deployment"]
        known = kind.read(kind, self.deployment).views[""]
        for view in () if isinstance(views, PortError) else views:
            for source in getattr(view.wanted, "sources", ()):
                key = (view.wanted.namespace, source.target)
                there = source.target.name == known.ref.name
                missing = TargetProblem(
                    namespace=key[0], ref=source.target, detail=f"there is no {source.target}", lasting=True
                )
                found[key] = known if there else missing
        return found

    def _pages(self) -> list[PageLook]:
        if isinstance(self.pods, PortError):
            return []
        report = _report(self.page)
        return [
            PageLook(service="shop/chat", variant="default", pod=each["metadata"]["name"], at="there", report=report)
            for each in self.pods
        ]


@functools.cache
def _report(page: FetchedPage | Unknown) -> PageReport:
    return report_page(page)


def _view(raw: Json) -> ResourceView:
    return ResourceView(wanted=parse_resource(raw), status=inner(raw, "status"), publication=publication_of(raw))


def resource(name: str, **spec: Any) -> Json:
    """An InferenceAutoscaler on Deployment chat, decided just now."""
    condition = {"reason": "Valid", "message": "", "lastTransitionTime": stamp(NOW_S)}
    return {
        "apiVersion": "gpu-autoscaler.io/v1alpha1",
        "kind": "InferenceAutoscaler",
        "metadata": meta(name),
        "spec": {
            "slo": {"ttft": "1s"},
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"},
            "minReplicas": 1,
            "maxReplicas": 4,
            **spec,
        },
        "status": {
            "observedGeneration": 1,
            "decidedAt": stamp(NOW_S - 5),
            "staleAfterSeconds": 60.0,
            "desiredReplicas": 2,
            "signals": [],
            "conditions": [{"type": "Ready", "status": "True", **condition}],
        },
    }


def _template() -> Json:
    container = {
        "name": "engine",
        "image": "engine",
        "ports": [{"containerPort": 8000}],
        "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "4"}},
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}},
        "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
    }
    return {
        "metadata": {"labels": {"app": "chat"}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 300},
    }


_DEPLOYMENT: Json = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": meta("chat"),
    "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "chat"}}, "template": _template()},
    "status": {"replicas": 2, "updatedReplicas": 2},
}


def _pod(name: str) -> Json:
    template = _template()
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": stamp(NOW_S - 600)}
    return {
        "metadata": {**meta(name), "labels": {"app": "chat"}},
        "spec": {**template["spec"], "nodeName": "gpu-0"},
        "status": {"phase": "Running", "podIP": "10.1.0.9", "conditions": [ready]},
    }


def gateway_pod(name: str, *, ready: bool = True) -> Json:
    """One of a gateway in namespace "ops"."""
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": stamp(NOW_S - 600)}
    ports = [{"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 8081}]
    return {
        "metadata": {**meta(name), "namespace": "ops", "labels": dict(GATEWAY_LABELS)},
        "spec": {"containers": [{"name": "gateway", "image": "gateway", "ports": ports}], "nodeName": "cpu-0"},
        "status": {"phase": "Running", "podIP": "10.1.0.7", "conditions": [condition]},
    }


def _lease() -> Json:
    spec = {"holderIdentity": "pod-0_abc", "leaseDurationSeconds": 15, "renewTime": stamp(NOW_S - 1)}
    return {"metadata": {**meta("gpu-autoscaler"), "namespace": "ops"}, "spec": spec}


def node(name: str, *, labels: Mapping[str, str] | None = None, devices: Mapping[str, str] | None = None) -> Json:
    """A node with two whole GPUs, or with ``devices``."""
    told = {"kubernetes.io/hostname": name, "nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "H100"}
    return {
        "metadata": {"name": name, "labels": {**told, **(labels or {})}},
        "spec": {},
        "status": {
            "allocatable": dict({"nvidia.com/gpu": "2"} if devices is None else devices),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def followed(world: World) -> ScaledService:
    """The service of the world, for manifests."""
    wanted = parse_resource(world.resource)
    assert isinstance(wanted, AutoscalerResource)
    bounds = wanted.service.bounds
    return ScaledService(
        namespace="shop",
        name="chat",
        min_replicas=bounds.min_replicas,
        max_replicas=bounds.max_replicas,
        sources=wanted.sources,
    )


def right_hpa(world: World) -> Json:
    """What ``manifests hpa`` prints."""
    made: Json = yaml.safe_load(hpa_manifests(followed(world), kubernetes=DEFAULT_KUBERNETES))
    return made


def right_scaled_object(world: World) -> Json:
    """What ``manifests keda`` prints."""
    made: Json = yaml.safe_load(keda_manifests(followed(world), KedaOptions()))
    return made


SCALER_SERVICE: Json = {"spec": {"type": "ClusterIP", "ports": [{"port": 9090}]}}


def api_service(*, service: str = "gpu-autoscaler", available: str = "True", ca: bytes = b"", **spec: Any) -> Json:
    """Registered for a Service of namespace "ops"."""
    condition = {"type": "Available", "status": available, "reason": "MissingEndpoints", "message": "no endpoints"}
    return {
        "spec": {
            "service": {"namespace": "ops", "name": service},
            "caBundle": base64.b64encode(ca).decode(),
            **spec,
        },
        "status": {"conditions": [condition]},
    }


class Authority:
    """Signs certificates around ``NOW_S``."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self.pem = self._sign(self._key, self._name, days=3650, hosts=())

    def issue(self, *, days: float = 365, hosts: Sequence[str] = ("gpu-autoscaler.ops.svc",)) -> bytes:
        """A certificate in PEM that ends so many days from now."""
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
        return self._sign(ec.generate_private_key(ec.SECP256R1()), name, days=days, hosts=hosts)

    def _sign(self, key: ec.EllipticCurvePrivateKey, name: x509.Name, *, days: float, hosts: Sequence[str]) -> bytes:
        now = datetime.fromtimestamp(NOW_S, UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=30))
            .not_valid_after(now + timedelta(days=days))
        )
        if hosts:
            names = x509.SubjectAlternativeName([x509.DNSName(each) for each in hosts])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
