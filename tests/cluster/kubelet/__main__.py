"""``python -m tests.cluster.kubelet``: one process that is the kubelet of every node of a test cluster.

It does to the API what kubelets do: heartbeats, the status of pods, their removal. A pod that asks for an engine gets a
real emulated one on its own address.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
from typing import Any

from tests.cluster.kubelet.addresses import Addresses
from tests.cluster.kubelet.api import KubeApi, Observer
from tests.cluster.kubelet.engines import EngineHost
from tests.cluster.kubelet.node_life import HEARTBEAT_S, NodeLife
from tests.cluster.kubelet.pod_life import Means, PodLife

Json = dict[str, Any]


class Kubelet:
    """All nodes of a cluster and the pods that are bound to them, by uid."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._nodes: dict[str, NodeLife] = {}
        self._pods: dict[str, PodLife] = {}
        self._beats: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """For ever."""
        async with asyncio.TaskGroup() as group:
            nodes = Observer(seen=self._node_seen, gone=self._node_gone)
            group.create_task(self._means.api.follow("/api/v1/nodes", {}, nodes))
            bound = {"fieldSelector": "spec.nodeName!="}
            pods = Observer(seen=self._pod_seen, gone=self._pod_gone)
            group.create_task(self._means.api.follow("/api/v1/pods", bound, pods))

    def _node_seen(self, node: Json) -> None:
        uid = node["metadata"]["uid"]
        if uid in self._nodes:
            self._nodes[uid].update(node)
        else:
            self._nodes[uid] = NodeLife(node, self._means.api)
            self._beats[uid] = asyncio.create_task(_beat(self._nodes[uid]))
        for pod in self._pods.values():
            self._power(pod)

    def _node_gone(self, uid: str) -> None:
        self._beats.pop(uid).cancel()
        del self._nodes[uid]
        for pod in self._pods.values():
            self._power(pod)

    def _pod_seen(self, pod: Json) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self._pods:
            self._pods[uid].update(pod)
        else:
            self._pods[uid] = PodLife(pod, self._means)
            self._power(self._pods[uid])

    def _pod_gone(self, uid: str) -> None:
        self._pods.pop(uid).forget()

    def _power(self, pod: PodLife) -> None:
        if any(node.name == pod.node and not node.lost for node in self._nodes.values()):
            pod.power_on()
        else:
            pod.power_off()


async def _beat(node: NodeLife) -> None:
    while True:
        await node.beat()
        await asyncio.sleep(HEARTBEAT_S)


async def _serve(server: str, context: ssl.SSLContext) -> None:
    engines = EngineHost()
    await engines.open()
    api, addresses = KubeApi(server, context), Addresses()
    try:
        await Kubelet(Means(api=api, engines=engines, addresses=addresses)).run()
    finally:
        addresses.close()
        await api.close()
        await engines.close()


def main() -> None:
    """Entry of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.kubelet")
    for name in ("server", "ca", "certificate", "key"):
        parser.add_argument(f"--{name}", required=True)
    given = parser.parse_args()
    context = ssl.create_default_context(cafile=given.ca)
    context.load_cert_chain(given.certificate, given.key)
    asyncio.run(_serve(given.server, context))


main()
