"""What is scaled, as one value: its numbers, how its pods are found and what they need, and who wrote it last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from adapters.kubernetes.label_matching import LabelSelector, NodeTerm
from autoscaler.domain.resource import TargetRef
from autoscaler.domain.service import DeviceRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A taint that a pod endures. Empty ``key`` (with operator Exists): every key; empty ``effect``: every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodNeeds:
    """What the scheduler and quotas look at in a pod of one template.

    ``requests``/``limits``: effective amounts by resource in base units (cores, bytes, devices), containers, init
    containers, sidecars and overhead taken together. ``largest_limits``: the highest limit that any one container has,
    by resource. ``node_terms``: required node affinity, alternatives; empty for
    none. ``priority``: where the template itself has it; else it comes from ``priority_class``.
    """

    requests: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    largest_limits: Mapping[str, float] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_terms: tuple[NodeTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    priority_class: str = ""
    priority: int | None = None
    grace_s: float = 30.0

    @property
    def devices(self) -> Mapping[str, int]:
        """Amounts of extended resources ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "amd.com/gpu") by name."""
        return {name: round(amount) for name, amount in self.requests.items() if is_extended(name) and amount > 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """Pods of one template among those that make up a replica."""

    needs: PodNeeds
    pods: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """A change of the pod template that is under way. ``updated`` of ``wanted`` pods have the new template.

    ``stalled``: it has made no progress for so long that its deadline has passed.
    """

    updated: int
    wanted: int
    stalled: bool = False

    def __str__(self) -> str:
        return f"a rollout {'is stuck' if self.stalled else 'is under way'}, {self.updated} of {self.wanted} updated"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldWriter:
    """Who owns the field with the replica count, by ``metadata.managedFields``.

    ``operation``: "Apply" or "Update". ``at_s``: when it last changed a field it owns, None where it came by /scale.
    ``subresource``: "" or "scale".
    """

    manager: str
    operation: str
    at_s: float | None
    subresource: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployer:
    """A tool that installed the object and may apply it again, such as "Argo CD application shop"."""

    tool: str
    name: str

    def __str__(self) -> str:
        return f"{self.tool} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleWrite:
    """How a count is written: by PUT of ``scale_path`` where the object has a scale subresource, else by a patch of
    ``object_path`` at ``pointer`` (keys and list indexes). ``guard``: a pointer and what must still be there, for
    elements of lists, which a change may move.
    """

    object_path: str
    scale_path: str | None = None
    pointer: tuple[str | int, ...] = ("spec", "replicas")
    guard: tuple[tuple[str | int, ...], str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetView:
    """One object with replicas.

    ``ref``: as the user named it; ``scaled``: the object whose count is written, which is another one where ``ref``
    has no count of its own (a KServe InferenceService is scaled by its Deployment) or is made by another (a Deployment
    of a NIMService). ``between``: the objects on the way. ``uid``, ``resource_version``: of ``scaled``.
    ``write``: how its count is written.

    ``replicas``: asked for (spec); ``status_replicas``: reported. ``selector``: finds all its pods, None where nothing
    tells. ``leader``: among them, the pods that answer for their replica, None where each pod does. ``group_label``:
    pods with the same value of it are one replica, None where each pod is one. ``groups``: the pods of one replica,
    None where the template isn't known.

    ``honours_deletion_cost``: whether a ReplicaSet picks the pods that go, so that their deletion cost counts.
    ``refusal``: why it can't be scaled by us, a sentence for a person, None where it can.
    """

    namespace: str
    ref: TargetRef
    scaled: TargetRef
    uid: str
    resource_version: str
    write: ScaleWrite
    replicas: int
    status_replicas: int | None = None
    selector: LabelSelector | None = None
    leader: LabelSelector | None = None
    group_label: str | None = None
    groups: tuple[PodGroup, ...] | None = None
    rollout: Rollout | None = None
    paused: bool = False
    writers: tuple[FieldWriter, ...] = ()
    deployers: tuple[Deployer, ...] = ()
    honours_deletion_cost: bool = False
    refusal: str | None = None
    between: tuple[TargetRef, ...] = ()

    @property
    def chain(self) -> tuple[TargetRef, ...]:
        """All objects from the named one to the scaled one: who else scales any of them scales the same pods."""
        return tuple(dict.fromkeys((self.ref, *self.between, self.scaled)))

    @property
    def pods_per_replica(self) -> int:
        """How many pods make up one replica; 1 where the template isn't known."""
        return 1 if self.groups is None else sum(group.pods for group in self.groups)

    @property
    def device_request(self) -> DeviceRequest | None:
        """The devices of one replica, None where it needs none or the template isn't known.

        Of several extended resources the one that computes counts (network cards come along with it). Pods that need
        different numbers of it are taken as if each needed the largest.
        """
        needing = [(group.needs.devices, group.pods) for group in self.groups or () if group.needs.devices]
        if not needing:
            return None
        kind = min({kind for devices, _ in needing for kind in devices}, key=device_rank)
        having = [(devices[kind], pods) for devices, pods in needing if kind in devices]
        return DeviceRequest(kind=kind, count=max(count for count, _ in having), pods=sum(pods for _, pods in having))


def is_extended(resource: str) -> bool:
    """Whether a resource is an extended one: a name with a domain outside kubernetes.io (Kubernetes docs, "Extended
    resources"); cpu, memory, storage and huge pages are not.
    """
    domain, slash, _ = resource.partition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


def device_rank(resource: str) -> tuple[bool, str]:
    """Sorts the resources that compute first: GPUs, slices of GPUs, other accelerators named so."""
    name = resource.partition("/")[2]
    return not name.startswith(("gpu", "mig-", "tpu", "npu", "neuron", "xpu", "gaudi")), resource
