"""Registration of a server on this machine as the cluster's source of external metrics.

There is no cluster network, so that the Service that an APIService names is an ExternalName one: the aggregator then
dials that name and still checks the certificate for ``<service>.<namespace>.svc`` (kube-aggregator,
pkg/apiserver/handler_proxy.go).
"""

from __future__ import annotations

import base64
from pathlib import Path

from tests.cluster.api import ApiClient, Json
from tests.cluster.processes import wait_for

API_SERVICE = "v1beta1.external.metrics.k8s.io"
_PATH = f"/apis/apiregistration.k8s.io/v1/apiservices/{API_SERVICE}"


def publish_api_service(api: ApiClient, *, namespace: str, service: str, port: int, ca: Path) -> None:
    """Make the server on 127.0.0.1 the owner of ``external.metrics.k8s.io/v1beta1``, whoever was it before."""
    _, group = API_SERVICE.split(".", 1)
    meta: Json = {"name": service, "namespace": namespace}
    api.apply(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": meta,
                "spec": {"type": "ExternalName", "externalName": "localhost"},
            },
            {
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "metadata": {"name": API_SERVICE},
                "spec": {
                    "group": group,
                    "version": "v1beta1",
                    "groupPriorityMinimum": 100,
                    "versionPriority": 100,
                    "caBundle": base64.b64encode(ca.read_bytes()).decode(),
                    "service": {"namespace": namespace, "name": service, "port": port},
                },
            },
        ]
    )


def await_api_service(api: ApiClient, *, namespace: str, service: str, within_s: float = 60.0) -> None:
    """Return once the aggregator reaches that owner. Raises NotReadyError."""

    def available() -> bool:
        found = api.find(_PATH) or {}
        owner = found.get("spec", {}).get("service", {})
        conditions = found.get("status", {}).get("conditions", [])
        return (owner.get("namespace"), owner.get("name")) == (namespace, service) and any(
            each["type"] == "Available" and each["status"] == "True" for each in conditions
        )

    wait_for(available, f"{API_SERVICE} of {namespace}/{service} is available", within_s=within_s)


def remove_api_service(api: ApiClient) -> None:
    """Nobody answers external metrics any more."""
    api.delete(_PATH)
