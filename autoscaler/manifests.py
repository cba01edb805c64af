"""Objects that let an HPA or KEDA act on the number of replicas that is published, as YAML.

Both relate a metric to a target and limit how fast they go; here that is set so that they do as the number says, and
nothing else: one replica per unit, no tolerance, no window, and policies that allow any step. The tolerance without
policies would slow growth down to the API server's default policies (4 pods or 100 % every 15 s;
k8s.io/kubernetes, ``pkg/apis/autoscaling/v2/defaults.go``).
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import yaml

from autoscaler.domain.publication import DESIRED_REPLICAS
from autoscaler.domain.resource import TargetRef, VariantSource

Value = str | int | bool | list["Value"] | dict[str, "Value"]

DEFAULT_SCALER_ADDRESS = "gpu-autoscaler.gpu-autoscaler.svc:9090"

# KEDA's admission webhook refuses a longer name, which also becomes a label's value.
_LONGEST_NAME = 63
# From here on the field is there (alpha, behind a feature gate), and on by default (beta); KEP-4951.
TOLERANCE_FROM, TOLERANCE_BY_DEFAULT_FROM = (1, 33), (1, 35)
# From here on an HPA goes to zero replicas by default (feature gate HPAScaleToZero, beta).
ZERO_FROM = (1, 37)
# Any within the API's limits: the policies allow all replicas at once.
_POLICY_PERIOD_S = 15
_POLLING_S = 10
_COMMENT_WIDTH = 100


class ManifestError(ValueError):
    """No right object can be made of this; the message says why, and what to do."""


class TriggerType(StrEnum):
    """How KEDA learns that a service is needed: at its next poll, or at once."""

    EXTERNAL = "external"
    EXTERNAL_PUSH = "external-push"


@dataclass(frozen=True, slots=True, order=True)
class KubernetesVersion:
    """Of the cluster that the objects are for."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> KubernetesVersion:
        """Of "1.36", "v1.36" or "v1.36.3". Raises ValueError."""
        parts = text.strip().removeprefix("v").split(".")
        if len(parts) < 2 or not all(part.isdecimal() for part in parts[:2]):
            raise ValueError(f"a version of Kubernetes is written like 1.36, got {text!r}")
        return cls(int(parts[0]), int(parts[1]))

    def at_least(self, other: tuple[int, int]) -> bool:
        """True from that version on."""
        return (self.major, self.minor) >= other

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


DEFAULT_KUBERNETES = KubernetesVersion(1, 36)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledService:
    """One InferenceAutoscaler: its bounds, of all variants together, and the target of each variant."""

    namespace: str
    name: str
    min_replicas: int
    max_replicas: int
    sources: tuple[VariantSource, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalerTls:
    """How KEDA checks the external scaler, and shows itself.

    ``secret``: in the service's namespace, with the authority in ``ca.crt``. ``client_certificate``: it also holds
    KEDA's certificate, ``tls.crt`` and ``tls.key``.
    """

    secret: str
    client_certificate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KedaOptions:
    """What a ScaledObject needs to know of the installation."""

    trigger: TriggerType = TriggerType.EXTERNAL_PUSH
    scaler_address: str = DEFAULT_SCALER_ADDRESS
    tls: ScalerTls | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One target: the name of its object, and which number it follows (None: that of all variants)."""

    object_name: str
    target: TargetRef
    variant: str | None
    min_replicas: int
    max_replicas: int
    remarks: tuple[str, ...]


def hpa_manifests(service: ScaledService, *, kubernetes: KubernetesVersion = DEFAULT_KUBERNETES) -> str:
    """One HorizontalPodAutoscaler for each target. Raises ManifestError."""
    return _documents([_hpa(service, part, kubernetes) for part in _parts(service)])


def keda_manifests(
    service: ScaledService, options: KedaOptions, *, kubernetes: KubernetesVersion = DEFAULT_KUBERNETES
) -> str:
    """One ScaledObject for each target, after a TriggerAuthentication where TLS asks for one. Raises ManifestError."""
    documents = [_scaled_object(service, part, options, kubernetes) for part in _parts(service)]
    if options.tls is not None:
        documents.insert(0, _trigger_authentication(service, options.tls))
    return _documents(documents)


@dataclass(frozen=True, slots=True)
class _Document:
    remarks: tuple[str, ...]
    content: dict[str, Value]


def _parts(service: ScaledService) -> list[_Part]:
    several = len(service.sources) > 1
    return [
        _Part(
            object_name=_short(f"{service.name}-{source.variant}" if several else service.name),
            target=target,
            variant=source.variant if several else None,
            # The lower bound is that of all variants together; any one of them may be left out.
            min_replicas=0 if several else service.min_replicas,
            max_replicas=service.max_replicas,
            remarks=remarks,
        )
        for source in service.sources
        for target, remarks in (_scalable(source.target),)
    ]


def _short(name: str) -> str:
    if len(name) > _LONGEST_NAME:
        raise ManifestError(
            f"the object would be called {name}, which is longer than the {_LONGEST_NAME} characters that KEDA and "
            "labels allow; shorten the name of the InferenceAutoscaler or of the variant"
        )
    return name


def _scalable(target: TargetRef) -> tuple[TargetRef, tuple[str, ...]]:
    """What offers the scale subresource for a target, and what has to be so for it to work."""
    if target.worker_group is not None or target.group == "ray.io":
        raise ManifestError(
            f"{target} offers no scale subresource, so neither an HPA nor KEDA can scale it; set mode: Scale and the "
            "autoscaler does it itself"
        )
    if target.group == "serving.kserve.io" and target.kind == "InferenceService":
        deployment = TargetRef(api_version="apps/v1", kind="Deployment", name=f"{target.name}-predictor")
        remark = (
            f"KServe must leave the replicas alone: InferenceService {target.name} needs the annotation "
            "serving.kserve.io/autoscalerClass: external"
        )
        return deployment, (remark,)
    return target, ()


def _hpa(service: ScaledService, part: _Part, kubernetes: KubernetesVersion) -> _Document:
    remarks, lowest = list(part.remarks), part.min_replicas
    if lowest == 0 and not kubernetes.at_least(ZERO_FROM):
        lowest = 1
        remarks.append(
            f"An HPA of Kubernetes {kubernetes} goes to 1 replica at least; 0 takes {_text(ZERO_FROM)}, or the "
            "feature gate HPAScaleToZero on API server and controller manager and then minReplicas: 0"
        )
    labels: dict[str, Value] = {"service": service.name}
    if part.variant is not None:
        labels["variant"] = part.variant
    behavior, said = _behavior(part.max_replicas, kubernetes)
    spec: dict[str, Value] = {
        "scaleTargetRef": _reference(part.target),
        "minReplicas": lowest,
        "maxReplicas": max(1, part.max_replicas),
        "metrics": [
            {
                "type": "External",
                "external": {
                    "metric": {"name": DESIRED_REPLICAS, "selector": {"matchLabels": labels}},
                    "target": {"type": "AverageValue", "averageValue": "1"},
                },
            }
        ],
        "behavior": behavior,
    }
    content: dict[str, Value] = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": part.object_name, "namespace": service.namespace},
        "spec": spec,
    }
    return _Document((*remarks, *said), content)


def _scaled_object(
    service: ScaledService, part: _Part, options: KedaOptions, kubernetes: KubernetesVersion
) -> _Document:
    metadata: dict[str, Value] = {"scalerAddress": options.scaler_address, "service": service.name}
    if part.variant is not None:
        metadata["variant"] = part.variant
    trigger: dict[str, Value] = {"type": options.trigger.value, "metadata": metadata}
    if options.tls is not None:
        metadata["enableTLS"] = "true"
        trigger["authenticationRef"] = {"name": _authentication_name(service)}
    behavior, said = _behavior(part.max_replicas, kubernetes)
    content: dict[str, Value] = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": part.object_name, "namespace": service.namespace},
        "spec": {
            "scaleTargetRef": _reference(part.target),
            "pollingInterval": _POLLING_S,
            "cooldownPeriod": 0,
            "minReplicaCount": part.min_replicas,
            "maxReplicaCount": max(1, part.max_replicas),
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": behavior}},
            "triggers": [trigger],
        },
    }
    remarks = (
        *part.remarks,
        "cooldownPeriod 0: the number goes to 0 only after the service's own idle time",
        "No fallback: while the number is not known the scaler answers with an error, and KEDA keeps the replicas",
        *said,
    )
    return _Document(remarks, content)


def _trigger_authentication(service: ScaledService, tls: ScalerTls) -> _Document:
    keys = [("caCert", "ca.crt")]
    if tls.client_certificate:
        keys += [("tlsClientCert", "tls.crt"), ("tlsClientKey", "tls.key")]
    references: list[Value] = [{"parameter": parameter, "name": tls.secret, "key": key} for parameter, key in keys]
    content: dict[str, Value] = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "TriggerAuthentication",
        "metadata": {"name": _authentication_name(service), "namespace": service.namespace},
        "spec": {"secretTargetRef": references},
    }
    return _Document((f"Secret {tls.secret} must be in namespace {service.namespace}",), content)


def _authentication_name(service: ScaledService) -> str:
    return f"{service.name}-gpu-autoscaler"


def _reference(target: TargetRef) -> dict[str, Value]:
    return {"apiVersion": target.api_version, "kind": target.kind, "name": target.name}


def _behavior(max_replicas: int, kubernetes: KubernetesVersion) -> tuple[dict[str, Value], tuple[str, ...]]:
    """``behavior`` of an HPA, and what has to be said of it."""
    behavior: dict[str, Value] = {
        "scaleUp": _rules(max_replicas, kubernetes),
        "scaleDown": _rules(max_replicas, kubernetes),
    }
    if kubernetes.at_least(TOLERANCE_BY_DEFAULT_FROM):
        return behavior, ()
    lost = "changes of up to 10 % are ignored, so from 10 replicas on a step of 1, from 20 on a step of 2"
    if kubernetes.at_least(TOLERANCE_FROM):
        said = f"Kubernetes {kubernetes} drops tolerance while its feature gate HPAConfigurableTolerance is off; then"
        return behavior, (f"{said} {lost}",)
    said = f"Kubernetes {kubernetes} knows no tolerance of a single HPA (from {_text(TOLERANCE_FROM)} on):"
    cure = "Set --horizontal-pod-autoscaler-tolerance=0 on the controller manager if you can"
    return behavior, (f"{said} {lost}. {cure}",)


def _rules(max_replicas: int, kubernetes: KubernetesVersion) -> dict[str, Value]:
    rules: dict[str, Value] = {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": max(1, max_replicas), "periodSeconds": _POLICY_PERIOD_S}],
    }
    if kubernetes.at_least(TOLERANCE_FROM):
        rules["tolerance"] = "0"
    return rules


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _documents(documents: Sequence[_Document]) -> str:
    texts = []
    for document in documents:
        wrapped = [
            line
            for remark in document.remarks
            for line in textwrap.wrap(f"{remark}.", _COMMENT_WIDTH, break_on_hyphens=False)
        ]
        remarks = "".join(f"# {line}\n" for line in wrapped)
        texts.append(remarks + yaml.safe_dump(document.content, sort_keys=False, default_flow_style=False, width=120))
    return "---\n".join(texts)
