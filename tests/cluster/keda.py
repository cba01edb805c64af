"""KEDA's operator and metrics adapter, as processes on 127.0.0.1."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.cluster.api import ApiError
from tests.cluster.build import keda_crds, program
from tests.cluster.certificates import Certificates
from tests.cluster.control_plane import ControlPlane
from tests.cluster.external_metrics import await_api_service, publish_api_service
from tests.cluster.processes import ManagedProcess, NotReadyError, Processes, free_port, wait_for

_NAMESPACE = "keda"
_SERVICE = "keda-metrics-apiserver"


class Keda:
    """KEDA beside one control plane. Not thread-safe."""

    def __init__(
        self, processes: Processes, folder: Path, certificates: Certificates, control_plane: ControlPlane
    ) -> None:
        self._processes = processes
        self._folder = folder
        self._certificates = certificates
        self._control_plane = control_plane
        self._operator: ManagedProcess | None = None
        self._adapter: ManagedProcess | None = None
        self._operator_port = free_port()
        self._adapter_port = free_port()

    def start(self) -> None:
        """Install its kinds, start what doesn't run, and make KEDA the owner of external metrics, whoever was it.

        Returns when metrics would be answered. Raises MissingProgramError or NotReadyError.
        """
        api = self._control_plane.api
        if self._operator is None:
            for definition in sorted(keda_crds().glob("*.yaml")):
                api.apply(definition.read_text())
            wait_for(self._kinds_are_served, "KEDA's kinds are served")
            api.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}])
        if self._operator is None or not self._operator.running:
            self._operator = self._start_operator()
        if self._adapter is None or not self._adapter.running:
            self._adapter = self._start_adapter()
        ca = self._certificates.ca.certificate
        publish_api_service(api, namespace=_NAMESPACE, service=_SERVICE, port=self._adapter_port, ca=ca)
        try:
            await_api_service(api, namespace=_NAMESPACE, service=_SERVICE)
        except NotReadyError as error:
            logs = "\n".join(f"{each.name}:\n{each.end_of_log()}" for each in (self._operator, self._adapter))
            raise NotReadyError(f"{error}\n{logs}") from None

    def stop(self) -> None:
        """End both parts; its kinds, objects and APIService stay."""
        for process in (self._operator, self._adapter):
            if process is not None:
                self._processes.stop(process)

    def kill_operator(self) -> None:
        """``kill -9`` of the part that calls scalers; ``start`` brings it back."""
        assert self._operator is not None
        self._processes.kill(self._operator)

    def operator_log(self) -> str:
        """What the operator has printed since the cluster was made."""
        assert self._operator is not None
        return self._operator.log.read_text(errors="replace")

    def _kinds_are_served(self) -> bool:
        try:
            self._control_plane.api.get("/apis/keda.sh/v1alpha1/scaledobjects")
        except ApiError:
            return False
        return True

    def _environ(self) -> dict[str, str]:
        return {
            "KUBECONFIG": str(self._control_plane.kubeconfig),
            "WATCH_NAMESPACE": "",
            "KEDA_CLUSTER_OBJECT_NAMESPACE": _NAMESPACE,
            "POD_NAMESPACE": _NAMESPACE,
        }

    def _certificate_folder(self) -> Path:
        """As its chart's Secret is mounted: ca.crt, tls.crt, tls.key."""
        folder = self._folder / "keda"
        folder.mkdir(exist_ok=True)
        shutil.copy(self._certificates.ca.certificate, folder / "ca.crt")
        shutil.copy(self._certificates.keda.certificate, folder / "tls.crt")
        shutil.copy(self._certificates.keda.key, folder / "tls.key")
        return folder

    def _start_operator(self) -> ManagedProcess:
        command = (
            *(str(program("keda-operator")), f"--cert-dir={self._certificate_folder()}", "--leader-elect=false"),
            f"--metrics-bind-address=127.0.0.1:{free_port()}",
            f"--health-probe-bind-address=127.0.0.1:{free_port()}",
            f"--metrics-service-bind-address=127.0.0.1:{self._operator_port}",
            *("--kube-api-qps=200", "--kube-api-burst=400"),
        )
        return self._processes.start("keda-operator", command, self._environ())

    def _start_adapter(self) -> ManagedProcess:
        config = self._control_plane.kubeconfig
        command = (
            *(str(program("keda-adapter")), f"--lister-kubeconfig={config}", f"--authentication-kubeconfig={config}"),
            *(f"--authorization-kubeconfig={config}", "--bind-address=127.0.0.1"),
            *(f"--secure-port={self._adapter_port}", f"--cert-dir={self._certificate_folder()}"),
            f"--tls-cert-file={self._certificates.keda.certificate}",
            f"--tls-private-key-file={self._certificates.keda.key}",
            # By the name in its certificate.
            *(f"--metrics-service-address=localhost:{self._operator_port}", f"--port={free_port()}"),
        )
        return self._processes.start("keda-adapter", command, self._environ())
