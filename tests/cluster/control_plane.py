"""etcd, the API server, the controller-manager (with HPA) and the scheduler, as processes on 127.0.0.1."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

from tests.cluster.api import ApiClient
from tests.cluster.build import program
from tests.cluster.certificates import Certificates, KeyPair
from tests.cluster.kubeconfig import write_kubeconfig
from tests.cluster.processes import ManagedProcess, Processes, free_port

_GATES = "--feature-gates=HPAScaleToZero=true"
# Those that something here depends on. Fewer start faster: each asks for its lists first.
_CONTROLLERS = (
    *("deployment", "replicaset", "statefulset", "job", "garbage-collector", "namespace", "serviceaccount"),
    *("root-ca-certificate-publisher", "horizontal-pod-autoscaler", "disruption", "endpointslice", "node-lifecycle"),
    *("taint-eviction", "pod-garbage-collector", "resourcequota", "resourceclaim", "clusterrole-aggregation"),
)

# What service accounts of tests ask for, one JSON object a line; the cluster's own are left out.
_AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system", "system:masters"]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
    ],
}


class ControlPlane:
    """One control plane; its files are in ``folder``. ``start`` brings it up, ``Processes`` takes it down."""

    def __init__(self, processes: Processes, folder: Path, certificates: Certificates) -> None:
        self._processes = processes
        self._folder = folder
        self._certificates = certificates
        self._etcd_ports = (free_port(), free_port())
        self.port = free_port()
        self.server = f"https://127.0.0.1:{self.port}"
        self.kubeconfig = self._kubeconfig("admin", certificates.admin)
        self.api = ApiClient(self.port, ca=str(certificates.ca.certificate), client=certificates.admin)
        self.audit_log = folder / "audit.jsonl"
        self._audit_policy = folder / "audit-policy.json"
        self._etcd: ManagedProcess | None = None
        self._api_server: ManagedProcess | None = None

    def start(self, before_controllers: Callable[[], None]) -> None:
        """Bring everything up; returns when it answers.

        ``before_controllers`` creates what the controller-manager should find: it looks for new kinds every 30 s only
        (``restmapper`` reset in cmd/kube-controller-manager/app/controllermanager.go), and an HPA on an unknown kind
        fails until then. Raises MissingProgramError or NotReadyError.
        """
        client, peer = (f"http://127.0.0.1:{port}" for port in self._etcd_ports)
        self._etcd = self._processes.start(
            "etcd",
            (
                *(str(program("etcd")), f"--data-dir={self._folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=warn"),
                *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
                *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"),
                f"--initial-cluster=default={peer}",
            ),
        )
        self.start_api_server()
        before_controllers()
        controller_manager = self._processes.start("kube-controller-manager", self._controller_manager())
        scheduler = self._processes.start("kube-scheduler", self._scheduler())
        for process in (controller_manager, scheduler):
            self._processes.await_ready(process, self._default_service_account)

    def start_api_server(self) -> None:
        """Start it over the same etcd and port; returns when it is ready."""
        self._audit_policy.write_text(json.dumps(_AUDIT))
        self._api_server = self._processes.start("kube-apiserver", self._api_server_command())
        self._processes.await_ready(self._api_server, self.api.ready)

    def kill_api_server(self) -> None:
        """``kill -9``."""
        assert self._api_server is not None
        self._processes.kill(self._api_server)

    def signal_api_server(self, number: int) -> None:
        """SIGSTOP makes it hang with its connections open, SIGCONT lets it go on."""
        assert self._api_server is not None
        self._api_server.signal(number)

    def pause_etcd(self) -> None:
        """The API server answers from then on only what it has in memory, and writes nothing."""
        assert self._etcd is not None
        self._etcd.signal(signal.SIGSTOP)

    def resume_etcd(self) -> None:
        """The end of a pause."""
        assert self._etcd is not None
        self._etcd.signal(signal.SIGCONT)

    def _default_service_account(self) -> bool:
        return self.api.find("/api/v1/namespaces/default/serviceaccounts/default") is not None

    def _kubeconfig(self, name: str, client: KeyPair) -> Path:
        ca = self._certificates.ca.certificate
        return write_kubeconfig(self._folder / f"{name}.conf", server=self.server, ca=ca, client=client)

    def _api_server_command(self) -> tuple[str, ...]:
        made = self._certificates
        return (
            *(str(program("kube-apiserver")), f"--etcd-servers=http://127.0.0.1:{self._etcd_ports[0]}"),
            *("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={self.port}"),
            *("--endpoint-reconciler-type=none", f"--cert-dir={self._folder / 'kube-apiserver'}", _GATES),
            f"--tls-cert-file={made.api_server.certificate}",
            f"--tls-private-key-file={made.api_server.key}",
            f"--client-ca-file={made.ca.certificate}",
            *(f"--audit-policy-file={self._audit_policy}", f"--audit-log-path={self.audit_log}"),
            *("--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/16", "--allow-privileged=true"),
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={made.service_account_public_key}",
            f"--service-account-signing-key-file={made.service_account_key}",
            f"--requestheader-client-ca-file={made.front_proxy_ca.certificate}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-uid-headers=X-Remote-Uid",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={made.front_proxy.certificate}",
            f"--proxy-client-key-file={made.front_proxy.key}",
        )

    def _controller_manager(self) -> tuple[str, ...]:
        made = self._certificates
        config = self._kubeconfig("controller-manager", made.controller_manager)
        return (
            *(str(program("kube-controller-manager")), *_as_client(config), _GATES),
            *("--leader-elect=false", "--bind-address=127.0.0.1", f"--secure-port={free_port()}"),
            f"--cert-dir={self._folder / 'kube-controller-manager'}",
            f"--flex-volume-plugin-dir={self._folder / 'flex-volumes'}",
            f"--service-account-private-key-file={made.service_account_key}",
            *(f"--root-ca-file={made.ca.certificate}", "--use-service-account-credentials=true"),
            # The defaults, 20 requests a second, delay the start by seconds.
            *("--kube-api-qps=500", "--kube-api-burst=1000"),
            *("--horizontal-pod-autoscaler-sync-period=1s", "--horizontal-pod-autoscaler-downscale-stabilization=3s"),
            *("--node-monitor-period=1s", "--node-monitor-grace-period=8s"),
            f"--controllers={','.join(f'{each}-controller' for each in _CONTROLLERS)}",
        )

    def _scheduler(self) -> tuple[str, ...]:
        return (
            str(program("kube-scheduler")),
            *_as_client(self._kubeconfig("scheduler", self._certificates.scheduler)),
            *("--leader-elect=false", "--bind-address=127.0.0.1", f"--secure-port={free_port()}"),
            *(f"--cert-dir={self._folder / 'kube-scheduler'}", "--kube-api-qps=1000", "--kube-api-burst=2000"),
        )


def _as_client(config: Path) -> tuple[str, ...]:
    return tuple(
        f"--{flag}={config}" for flag in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    )
