"""Checks of nodes: the devices that they offer, what the GPU Operator says of them, and who needs them.

Labels: NVIDIA k8s-device-plugin, docs/gpu-feature-discovery (gpu.product, gpu.replicas, gpu.sharing-strategy,
mig.strategy, mig-PROFILE.count); NVIDIA mig-parted and GPU Operator docs, "MIG" (mig.config, mig.config.state).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from adapters.kubernetes.nodes import Heard, NodeView, node_view
from adapters.kubernetes.raw_json import JsonObject
from adapters.kubernetes.target_view import PodNeeds
from autoscaler.doctor.facts import ClusterFacts, known, named
from autoscaler.doctor.finding import CheckId, Finding, Findings, error, fine, of_each, warning
from autoscaler.ports import PortError

_GPU = "nvidia.com/gpu"
_MIG = "nvidia.com/mig-"
_SHARED = ".shared"
_HOSTNAME = "kubernetes.io/hostname"


def check_nodes(facts: ClusterFacts) -> Findings:
    """Nodes with devices that are not ready, or whose plugins are not at work."""
    yield from of_each(CheckId.NODE, named("Node", known(facts.nodes)), _node)


def _node(subject: str, source: JsonObject) -> Findings:
    node = node_view(source)
    has_gpus = node.labels.get("nvidia.com/gpu.present") == "true"
    nvidia = {name: count for name, count in node.devices.items() if name.startswith("nvidia.com/")}
    if node.heard is not Heard.READY and (node.devices or has_gpus):
        message = f"it has devices and is {node.heard}: {node.detail}"
        yield warning(CheckId.NODE, subject, message, f"kubectl describe node {node.name}")
    if has_gpus and not any(nvidia.values()):
        fix = "kubectl get pods -A -o wide -l app=nvidia-device-plugin-daemonset: the plugin must run on it"
        yield warning(CheckId.NODE, subject, "it is labelled as having GPUs and offers none", fix)
    elif any(nvidia.values()) and not node.product:
        message = "it offers GPUs and no label nvidia.com/gpu.product: types of GPU can't be told apart"
        yield warning(CheckId.NODE, subject, message, "run GPU Feature Discovery (GPU Operator: gfd.enabled=true)")
    if node.devices and _HOSTNAME not in node.labels:
        message = f"the label {_HOSTNAME} is missing, which the kubelet sets"
        yield warning(CheckId.NODE, subject, message, f"kubectl label node {node.name} {_HOSTNAME}={node.name}")


def check_mig(facts: ClusterFacts) -> Findings:
    """MIG: slices that are being cut, failed, or are not what the labels say."""
    yield from of_each(CheckId.MIG, named("Node", known(facts.nodes)), _mig)


def _mig(subject: str, source: JsonObject) -> Findings:
    node = node_view(source)
    state = node.labels.get("nvidia.com/mig.config.state", "")
    slices = {name: count for name, count in node.devices.items() if name.startswith(_MIG)}
    if state == "failed":
        message = f"its MIG configuration {node.labels.get('nvidia.com/mig.config', '')!r} failed"
        fix = "kubectl -n gpu-operator logs -l app=nvidia-mig-manager; end what uses the GPU, then label it anew"
        yield error(CheckId.MIG, subject, message, fix)
    elif node.geometry_changing:
        message = f"its slices are being cut anew ({state}): nothing is placed there meanwhile"
        yield warning(
            CheckId.MIG, subject, message, "if it stays: kubectl -n gpu-operator logs -l app=nvidia-mig-manager"
        )
    if node.mig_strategy == "single":
        message = f"MIG strategy single offers its slices as {_GPU}: a slice and a whole GPU can't be told apart"
        yield warning(CheckId.MIG, subject, message, "GPU Operator: mig.strategy=mixed, and ask for nvidia.com/mig-*")
    if node.mig_strategy in ("single", "none") and any(slices.values()):
        message = f"{', '.join(slices)} are left from before: strategy {node.mig_strategy} offers none"
        yield warning(CheckId.MIG, subject, message, "restart the device plugin's pod and the kubelet on it")
    if node.mig_strategy == "mixed" and state in ("success", ""):
        yield from _counted(subject, node, slices)


def _counted(subject: str, node: NodeView, slices: Mapping[str, int]) -> Findings:
    """What feature discovery has counted on the GPUs against what the kubelet offers."""
    labelled = {
        name.removesuffix(".count"): int(value)
        for name, value in node.labels.items()
        if name.startswith(_MIG) and name.endswith(".count") and value.isdecimal()
    }
    for name in sorted(labelled.keys() | {name for name, count in slices.items() if count}):
        if labelled and labelled.get(name, 0) != slices.get(name, 0):
            message = f"it has {labelled.get(name, 0)} {name} by its labels and offers {slices.get(name, 0)}"
            yield warning(CheckId.MIG, subject, message, "restart the device plugin's pod on it; then compare again")


def check_sharing(facts: ClusterFacts) -> Findings:
    """Nodes whose GPUs are shared by several pods."""
    yield from of_each(CheckId.SHARING, named("Node", known(facts.nodes)), _sharing)


def _sharing(subject: str, source: JsonObject) -> Findings:
    node = node_view(source)
    strategy = node.labels.get("nvidia.com/gpu.sharing-strategy", "")
    replicas = node.labels.get("nvidia.com/gpu.replicas", "")
    shared = [name for name in node.devices if name.endswith(_SHARED)]
    if strategy not in ("", "none") or (replicas.isdecimal() and int(replicas) > 1) or shared:
        of = f"{replicas} pods to a GPU" if replicas.isdecimal() and int(replicas) > 1 else ", ".join(shared)
        message = f"its GPUs are shared ({strategy or 'replicas'}{f', {of}' if of else ''})"
        yield warning(
            CheckId.SHARING,
            subject,
            f"{message}: what one replica can serve depends on its neighbours, so capacity is learned too high or low",
            "use MIG slices for services with an SLO, or keep one service to a node",
        )


def check_devices(facts: ClusterFacts) -> Findings:
    """Services that ask for devices, or for nodes, that the cluster does not have."""
    nodes = list(_readable(known(facts.nodes)))
    for subject, viewed in facts.viewed_by_name():
        view = viewed.view
        for group in view.groups or ():
            yield from _placeable(subject, str(view.scaled), group.needs, nodes, made=_made(facts))


def _made(facts: ClusterFacts) -> bool:
    """Whether nodes are made for pods that wait."""
    return facts.settings is not None and facts.settings.node_autoscaling


def _readable(nodes: Iterable[JsonObject]) -> Iterable[NodeView]:
    for source in nodes:
        try:
            yield node_view(source)
        except PortError:
            continue


def _placeable(subject: str, target: str, needs: PodNeeds, nodes: list[NodeView], *, made: bool) -> Findings:
    told = _may_be_made if made else error
    for kind, count in needs.devices.items():
        most = max((node.devices.get(kind, 0) for node in nodes), default=0)
        offered = sorted({name for node in nodes for name, amount in node.devices.items() if amount})
        if most == 0:
            there = ", ".join(offered) or "none"
            message = f"{target} asks for {count} {kind}, which no node offers (there are: {there})"
            fix = f"add such nodes, or ask for what there is in its template's resources.limits: {there}"
            yield told(CheckId.DEVICES, subject, message, fix)
        elif most < count:
            message = f"{target} asks for {count} {kind} on one node, and the largest has {most}"
            yield told(CheckId.DEVICES, subject, message, "ask for less in resources.limits, or add larger nodes")
    fitting = [node for node in nodes if _meets(needs, node)]
    if nodes and not fitting and (needs.node_selector or needs.node_terms):
        wanted = ", ".join(f"{key}={value}" for key, value in needs.node_selector.items()) or "its node affinity"
        message = f"no node has the labels that {target} asks for: {wanted}"
        yield told(CheckId.DEVICES, subject, message, "spec.template.spec.nodeSelector, or kubectl label node")


def _may_be_made(check: CheckId, subject: str, message: str, fix: str) -> Finding:
    """What is no fault where nodes are made for pods that wait."""
    return fine(check, subject, f"{message}; such nodes may be made ({fix})")


def _meets(needs: PodNeeds, node: NodeView) -> bool:
    chosen = all(node.labels.get(key) == value for key, value in needs.node_selector.items())
    return chosen and (
        not needs.node_terms or any(term.matches(name=node.name, labels=node.labels) for term in needs.node_terms)
    )
