"""The pods that export what GPUs say: dcgm-exporter (its chart's and the GPU Operator's) and AMD's exporter.

DaemonSets' pods, by the names in their labels ``app`` and ``app.kubernetes.io/name``: NVIDIA/dcgm-exporter,
deployment/templates; GPU Operator, assets/state-dcgm-exporter; ROCm/device-metrics-exporter, its Helm chart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from adapters.kubernetes.broken_devices import shares_devices
from adapters.kubernetes.collections import Kept
from adapters.kubernetes.contents import ObjectKey
from adapters.kubernetes.nodes import NodeView
from adapters.kubernetes.pod_life import Life
from adapters.kubernetes.pods import PodView
from adapters.kubernetes.replicas import address_of
from autoscaler.domain.resource import Scheme
from autoscaler.ports import UnavailableError

_LABELS = ("app", "app.kubernetes.io/name")
_PORTS = {"dcgm-exporter": 9400, "amdgpu-metrics-exporter": 5000, "device-metrics-exporter": 5000}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ExporterPage:
    """One exporter's page, and the node whose devices it tells of.

    ``shared``: the node gives each device to several pods (time slicing, MPS), whatever the page names.
    """

    node: str
    url: str
    shared: bool = False


class GpuExporters:
    """Finds the exporters among the cluster's pods; looks again only once pods have changed."""

    def __init__(self, pods: Kept[PodView], nodes: Kept[NodeView]) -> None:
        self._pods = pods
        self._nodes = nodes
        self._seen: Mapping[ObjectKey, PodView] | None = None
        self._found: tuple[ExporterPage, ...] = ()

    def pages(self) -> Sequence[ExporterPage]:
        """Those of exporters that are ready, sorted; none while pods or nodes are not known."""
        try:
            pods, nodes = self._pods.items(), self._nodes.items()
        except UnavailableError:
            return ()
        if pods is not self._seen:
            self._seen, self._found = pods, tuple(sorted(filter(None, map(_page, pods.values()))))
        sharing = {node.name for node in nodes.values() if shares_devices(node)}
        return [replace(page, shared=True) if page.node in sharing else page for page in self._found]


def _page(pod: PodView) -> ExporterPage | None:
    made_for_nodes = pod.owner is not None and pod.owner.kind == "DaemonSet"
    if pod.life is not Life.READY or not pod.ip or not pod.node or not made_for_nodes:
        return None
    for label in _LABELS:
        for name, usual in _PORTS.items():
            if pod.labels.get(label, "").endswith(name):
                port = dict(pod.ports).get("metrics") or (pod.ports[0][1] if len(pod.ports) == 1 else usual)
                return ExporterPage(node=pod.node, url=f"{address_of(pod.ip, port, scheme=Scheme.HTTP)}/metrics")
    return None
