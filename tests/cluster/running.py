"""A running test cluster: what tests are given."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.cluster import external_metrics
from tests.cluster.api import ApiClient, ApiError, Json
from tests.cluster.build import program
from tests.cluster.certificates import Certificates
from tests.cluster.control_plane import ControlPlane
from tests.cluster.keda import Keda
from tests.cluster.kubeconfig import write_kubeconfig
from tests.cluster.nodes import Nodes
from tests.cluster.processes import Processes, wait_for

ROOT = Path(__file__).parents[2]
# Kinds of other projects that an HPA scales.
_TARGETS = Path(__file__).parent / "crds"
CPU_NODE = "cpu-0"
# Kinds that a controller, an operator or the doctor looks for in every namespace.
_LOOKED_FOR = (
    ("gpu-autoscaler.io/v1alpha1", "inferenceautoscalers"),
    ("keda.sh/v1alpha1", "scaledobjects"),
    ("autoscaling/v2", "horizontalpodautoscalers"),
)


class Cluster:
    """A real control plane with a stand-in for kubelets. Made once a test run; tests share it by namespaces.

    ``api``: the administrator's client. ``kubeconfig``: the administrator's file. ``server``: the API server's URL.
    ``folder``: logs (``*.log``) and state. The node ``cpu-0`` is there for pods without devices.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificates = Certificates(folder / "certificates")
        self._processes = Processes(folder)
        self._control_plane = ControlPlane(self._processes, folder, self.certificates)
        self.api: ApiClient = self._control_plane.api
        self.kubeconfig: Path = self._control_plane.kubeconfig
        self.server: str = self._control_plane.server
        self.nodes = Nodes(self.api)
        self.keda = Keda(self._processes, folder, self.certificates, self._control_plane)

    def start(self) -> None:
        """Bring it up. Raises MissingProgramError or NotReadyError."""
        self._control_plane.start(lambda: self.define_kinds(_TARGETS))
        admin = self.certificates.admin
        self._processes.start(
            "kubelet",
            (
                *(sys.executable, "-m", "tests.cluster.kubelet", "--server", self.server),
                *("--ca", str(self.certificates.ca.certificate)),
                *("--certificate", str(admin.certificate), "--key", str(admin.key)),
            ),
            {"PYTHONPATH": str(ROOT)},
        )
        self.nodes.add(CPU_NODE, resources={"pods": "1000", "cpu": "1000", "memory": "4Ti"})

    def stop(self) -> None:
        """Take it down, whatever state it is in."""
        self._processes.stop_all()

    # Identities

    def token(self, namespace: str, service_account: str, *, audiences: Iterable[str] = ()) -> str:
        """A token of an hour for a service account, for the API server unless audiences are named."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        spec = {"expirationSeconds": 3600, "audiences": list(audiences)}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str(self.api.post(path, request)["status"]["token"])

    def asked_for(self, namespace: str, service_account: str) -> list[Json]:
        """What a service account has asked the API server for: audit events, in the order of their answers."""
        user = f"system:serviceaccount:{namespace}:{service_account}"
        lines = self._control_plane.audit_log.read_text().splitlines()
        return [event for line in lines if (event := json.loads(line))["user"]["username"] == user]

    def kubeconfig_for_service_account(self, namespace: str, name: str) -> Path:
        """A kubeconfig with such a token, to act with that account's rights; its default namespace is the account's."""
        return write_kubeconfig(
            self.folder / f"{namespace}.{name}.conf",
            server=self.server,
            ca=self.certificates.ca.certificate,
            token=self.token(namespace, name),
            namespace=namespace,
        )

    def api_as(self, namespace: str, service_account: str) -> ApiClient:
        """A client with a service account's rights."""
        ca = str(self.certificates.ca.certificate)
        return ApiClient(self._control_plane.port, ca=ca, token=self.token(namespace, service_account))

    # Objects

    @contextmanager
    def namespace(self, name: str | None = None) -> Iterator[str]:
        """A namespace for the length of a block. What others might look at is gone at its end; the rest goes later."""
        chosen = name if name is not None else f"test-{uuid.uuid4().hex[:8]}"
        self.api.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": chosen}})
        account = f"/api/v1/namespaces/{chosen}/serviceaccounts/default"
        try:
            wait_for(lambda: self.api.find(account), f"{chosen} has its default service account")
            yield chosen
        finally:
            self._clear(chosen)
            self.api.delete(f"/api/v1/namespaces/{chosen}")

    def _clear(self, namespace: str) -> None:
        """A namespace goes only after its pods' grace, and never where a finalizer's operator is away."""
        for version, plural in _LOOKED_FOR:
            collection = f"/apis/{version}/namespaces/{namespace}/{plural}"
            if self.api.find(collection) is None:  # no such kind was defined
                continue
            for each in self.api.items(collection):
                path = f"{collection}/{each['metadata']['name']}"
                self.api.delete(path)
                with suppress(ApiError):  # gone at once, without a finalizer
                    self.api.patch(path, {"metadata": {"finalizers": None}})

    def apply(self, manifests: str | Iterable[Mapping[str, Any]], *, namespace: str = "default") -> list[Json]:
        """Server-side apply of YAML text or of objects; ``namespace`` is for those that live in one and name none."""
        return self.api.apply(manifests, namespace=namespace)

    def define_kinds(self, folder: Path) -> None:
        """Apply the CustomResourceDefinitions of a folder's YAML files; returns when they are served.

        An HPA on a kind that is defined while the cluster runs works after up to 30 s: kinds that one scales belong in
        ``tests/cluster/crds``, which is applied before the controllers start. Raises ApiError.
        """
        for file in sorted(folder.glob("*.yaml")):
            for each in self.api.apply(file.read_text()):
                self._await_kind(each)

    def pods(self, namespace: str, selector: str = "") -> list[Json]:
        """The pods of a namespace."""
        return self.api.items(f"/api/v1/namespaces/{namespace}/pods", labelSelector=selector)

    def events(self, namespace: str) -> list[Json]:
        """The events of a namespace."""
        return self.api.items(f"/api/v1/namespaces/{namespace}/events")

    def kubectl(self, *arguments: str) -> str:
        """What kubectl prints, as the administrator. Raises CalledProcessError."""
        return self._tool("kubectl", *arguments)

    def helm(self, *arguments: str) -> str:
        """What helm prints, as the administrator. Raises CalledProcessError."""
        return self._tool("helm", *arguments)

    # Outages

    def kill_api_server(self) -> None:
        """``kill -9``; ``start_api_server`` ends the outage."""
        self._control_plane.kill_api_server()

    def start_api_server(self) -> None:
        """Start it anew over the same data; returns when it is ready."""
        self._control_plane.start_api_server()

    def restart_api_server(self) -> None:
        """``kill -9`` and start; returns when it is ready."""
        self.kill_api_server()
        self.start_api_server()

    @contextmanager
    def api_server_down(self) -> Iterator[None]:
        """No API server for the length of a block: connections are refused."""
        self.kill_api_server()
        try:
            yield
        finally:
            self.start_api_server()

    @contextmanager
    def api_server_hanging(self) -> Iterator[None]:
        """An API server that takes connections and says nothing for the length of a block."""
        self._control_plane.signal_api_server(signal.SIGSTOP)
        try:
            yield
        finally:
            self._control_plane.signal_api_server(signal.SIGCONT)
            wait_for(self.api.ready, "the API server is ready again")

    def pause_etcd(self) -> None:
        """Nothing is written, and only what the API server has in memory is read, until ``resume_etcd``."""
        self._control_plane.pause_etcd()

    def resume_etcd(self) -> None:
        """The end of a pause."""
        self._control_plane.resume_etcd()

    @contextmanager
    def etcd_paused(self) -> Iterator[None]:
        """``pause_etcd`` for the length of a block; returns when the API server is ready again."""
        self.pause_etcd()
        try:
            yield
        finally:
            self.resume_etcd()
            wait_for(self.api.ready, "the API server is ready again")

    # Metrics

    def start_keda(self) -> None:
        """Start what of KEDA isn't running; it owns external metrics from then on, whoever did before."""
        self.keda.start()

    def stop_keda(self) -> None:
        """End KEDA's processes, and let external metrics go; its kinds and objects stay."""
        self.keda.stop()
        self.remove_api_service()

    @contextmanager
    def keda_serving(self) -> Iterator[None]:
        """``start_keda`` for the length of a block, without an owner of external metrics after it."""
        try:
            self.start_keda()
            yield
        finally:
            self.stop_keda()

    def serve_api_service(self, *, namespace: str, service: str, port: int, ca: Path | None = None) -> None:
        """Make a TLS server on localhost the cluster's source of external metrics; returns when it is reached.

        Its certificate must be for ``<service>.<namespace>.svc``, signed by ``ca``, the cluster's unless given. Whoever
        owned external metrics before, KEDA too, does so no more. Raises NotReadyError.
        """
        self.register_api_service(namespace=namespace, service=service, port=port, ca=ca)
        external_metrics.await_api_service(self.api, namespace=namespace, service=service)

    @contextmanager
    def api_service(self, *, namespace: str, service: str, port: int) -> Iterator[None]:
        """``serve_api_service`` for the length of a block, without an owner of external metrics after it.

        One whose server is gone would keep every namespace from being deleted, since that asks all groups.
        """
        try:
            self.serve_api_service(namespace=namespace, service=service, port=port)
            yield
        finally:
            self.remove_api_service()

    def register_api_service(self, *, namespace: str, service: str, port: int, ca: Path | None = None) -> None:
        """As ``serve_api_service``, without waiting: for servers that can't be reached."""
        chosen = ca if ca is not None else self.certificates.ca.certificate
        external_metrics.publish_api_service(self.api, namespace=namespace, service=service, port=port, ca=chosen)

    def remove_api_service(self) -> None:
        """Nobody answers external metrics any more."""
        external_metrics.remove_api_service(self.api)

    def _tool(self, name: str, *arguments: str) -> str:
        command = (str(program(name)), f"--kubeconfig={self.kubeconfig}", *arguments)
        # What they keep between runs is kept here, not at the user's.
        homes = ("KUBECACHEDIR", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")
        environ = {**os.environ, **{home: str(self.folder / home.lower()) for home in homes}}
        return subprocess.run(command, env=environ, check=True, stdout=subprocess.PIPE, text=True).stdout

    def _await_kind(self, definition: Json) -> None:
        """Until a CustomResourceDefinition is served."""
        spec = definition["spec"]
        version = next(each["name"] for each in spec["versions"] if each["served"])
        path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"

        def served() -> bool:
            try:
                self.api.get(path)
            except ApiError:
                return False
            return True

        wait_for(served, f"{path} is served")


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster for the length of a block, its files in ``folder``. Raises MissingProgramError or NotReadyError."""
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
