"""The chart's release as it would run: in place of its pods, processes with their configuration and their rights.

The kubelet of the test cluster can't run an image, and there is no cluster network. So the pods' place is taken by a
process that has the ConfigMap's configuration, the Secrets' files and a token of the service account; ports, paths
and the addresses that others dial are those of this machine.
"""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass, field
from typing import Any

import yaml

from tests.cluster.controllers import ControllerProcess
from tests.cluster.external_metrics import API_SERVICE, await_api_service
from tests.cluster.processes import free_port

RELEASE = "gpu-autoscaler"
_API_SERVICE = f"/apis/apiregistration.k8s.io/v1/apiservices/{API_SERVICE}"


@dataclass
class InstalledController(ControllerProcess):
    """One replica of the release ``gpu-autoscaler`` in the namespace of that name."""

    metrics_port: int = field(default_factory=free_port)
    scaler_port: int = field(default_factory=free_port)

    def document(self) -> dict[str, Any]:
        """The ConfigMap's configuration, with ports and paths of this machine."""
        found = self.cluster.api.get(f"/api/v1/namespaces/{self.namespace}/configmaps/{RELEASE}")
        config: dict[str, Any] = yaml.safe_load(found["data"]["config.yaml"])
        config["stateDir"] = str(self.folder / f"{self.name}-state")
        config["api"] |= {"host": "127.0.0.1", "port": self.api_port, "tokenFile": self._secret("token", "token")}
        cluster: dict[str, Any] = config["kubernetes"]
        cluster["kubeconfig"] = str(self.kubeconfig)
        for server, port in (("externalMetrics", self.metrics_port), ("externalScaler", self.scaler_port)):
            if server in cluster:
                cluster[server] |= {"host": "127.0.0.1", "port": port}
                if "keyFile" in cluster[server]:
                    cluster[server]["certificateFile"] = self._secret("tls", "tls.crt")
                    cluster[server]["keyFile"] = self._secret("tls", "tls.key")
        return config

    def publish(self) -> None:
        """What the Service in front of it does: the API server reaches it, where it serves external metrics."""
        service = f"{RELEASE}-metrics"
        owner = (self.cluster.api.find(_API_SERVICE) or {}).get("spec", {}).get("service", {})
        if (owner.get("namespace"), owner.get("name")) != (self.namespace, service):
            return
        by_name = {"type": "ExternalName", "externalName": "localhost", "clusterIP": None, "clusterIPs": None}
        self.cluster.api.patch(f"/api/v1/namespaces/{self.namespace}/services/{service}", {"spec": by_name})
        self.cluster.api.patch(_API_SERVICE, {"spec": {"service": {"port": self.metrics_port}}})
        await_api_service(self.cluster.api, namespace=self.namespace, service=service)

    def _secret(self, name: str, key: str) -> str:
        found = self.cluster.api.get(f"/api/v1/namespaces/{self.namespace}/secrets/{RELEASE}-{name}")
        file = self.folder / key
        file.write_bytes(b64decode(found["data"][key]))
        return str(file)
