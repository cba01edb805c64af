"""What a cluster's user asks for: a service, the objects that run its replicas, and whether they may be scaled."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from autoscaler.domain.gateway import GatewayKind
from autoscaler.domain.service import Service


class Mode(StrEnum):
    """Whether the controller acts. ADVISE writes nothing but status; SCALE changes the number of replicas."""

    ADVISE = "Advise"
    SCALE = "Scale"


class Scheme(StrEnum):
    """How metrics pages are fetched."""

    HTTP = "http"
    HTTPS = "https"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TargetRef:
    """An object with replicas in the namespace of the resource that names it.

    ``api_version`` as objects write it ("apps/v1"). ``worker_group``: which of the object's groups of pods is meant,
    for kinds that have several (a RayService's worker groups); None for the others.
    """

    api_version: str
    kind: str
    name: str
    worker_group: str | None = None

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        group, slash, _ = self.api_version.partition("/")
        return group if slash else ""

    @property
    def version(self) -> str:
        """The API version without its group."""
        return self.api_version.rpartition("/")[2]

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What is equal where two references mean the same replicas: versions of one group are the same object."""
        return self.group, self.kind, self.name, self.worker_group or ""

    def __str__(self) -> str:
        group = f" worker group {self.worker_group}" if self.worker_group else ""
        return f"{self.kind} {self.name}{group}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsEndpoint:
    """Where a replica's page is, at the address of its pod.

    ``port``: its number, the name of a container port, or None where the pod has to tell.
    """

    port: int | str | None = None
    path: str = "/metrics"
    scheme: Scheme = Scheme.HTTP


# What the chart labels its gateway's pods with.
GATEWAY_LABELS = (("app.kubernetes.io/component", "gateway"), ("app.kubernetes.io/name", "gpu-autoscaler"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRef:
    """Which pods are the gateway in front of a service: those of a namespace that have all these labels.

    ``namespace`` None: the controller's own. ``port``, ``path``: where their metrics page is; the port a number or a
    port's name. ``match``: labels of the service's series on the page of a gateway that is not ours; none: the label
    by which that gateway tells services apart has the resource's name.
    """

    kind: GatewayKind = GatewayKind.GPU_AUTOSCALER
    labels: tuple[tuple[str, str], ...] = GATEWAY_LABELS
    namespace: str | None = None
    port: int | str = "metrics"
    path: str = "/metrics"
    match: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRequests:
    """How a gateway treats the requests of a service, and where replicas take them, at the addresses of their pods.

    ``models``: names in a request body that choose the service; none: the resource's name does. ``port``: its number,
    the name of a container port, or None where the pod has to tell. ``max_waiting``, ``max_wait_s``: requests held
    while no replica is ready, and how long. ``timeout_s``: of a whole request; None sets no limit.
    """

    models: tuple[str, ...] = ()
    port: int | str | None = None
    scheme: Scheme = Scheme.HTTP
    max_waiting: int = 1000
    max_wait_s: float = 900.0
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantSource:
    """Where the replicas of one variant come from."""

    variant: str
    target: TargetRef


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerResource:
    """One InferenceAutoscaler that can be used.

    ``service.id`` is "namespace/name"; the devices of its variants are open here (the pod templates tell them).
    ``labels``: its own, sorted. ``created_s``: of two resources on one target the older has it. ``sources``: one for
    each variant of the service, in its order. ``gateway`` None: there is none in front of it.
    """

    namespace: str
    name: str
    uid: str
    generation: int
    created_s: float
    labels: tuple[tuple[str, str], ...]
    mode: Mode
    service: Service
    sources: tuple[VariantSource, ...]
    metrics: MetricsEndpoint = MetricsEndpoint()
    gateway: GatewayRef | None = None
    requests: ServedRequests = ServedRequests()

    def __post_init__(self) -> None:
        sources = [source.variant for source in self.sources]
        variants = [variant.name for variant in self.service.variants]
        if sources != variants:
            raise ValueError(f"{self.service.id} has the variants {variants} but targets for {sources}")

    def target(self, variant: str) -> TargetRef:
        """The object that runs this variant. Raises KeyError."""
        for source in self.sources:
            if source.variant == variant:
                return source.target
        raise KeyError(variant)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceProblem:
    """One thing that is wrong with a resource. ``path``: the key's, as ``spec.slo.itl``."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedResource:
    """One InferenceAutoscaler that can't be used, and all that is wrong with it."""

    namespace: str
    name: str
    uid: str
    generation: int
    problems: tuple[ResourceProblem, ...]
