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
        self._running: list[ManagedProcess] = []
        self._metrics_port = free_port()

    @property
    def running(self) -> bool:
        """It has been started, and not stopped since."""
        return bool(self._running)

    def start(self) -> None:
        """Install its kinds and start both parts; the owner of external metrics is KEDA from then on.

        Returns when metrics would be answered. Raises MissingProgramError or NotReadyError.
        """
        if self._running:
            return
        api = self._control_plane.api
        for definition in sorted(keda_crds().glob("*.yaml")):
            api.apply(definition.read_text())
        wait_for(self._kinds_are_served, "KEDA's kinds are served")
        api.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}])
        operator_port = free_port()
        self._running = [self._start_operator(operator_port), self._start_adapter(operator_port)]
        publish_api_service(
            api,
            namespace=_NAMESPACE,
            service=_SERVICE,
            port=self._metrics_port,
            ca=self._certificates.ca.certificate,
        )
        try:
            await_api_service(api, namespace=_NAMESPACE, service=_SERVICE)
        except NotReadyError as error:
            logs = "\n".join(f"{each.name}:\n{each.end_of_log()}" for each in self._running)
            raise NotReadyError(f"{error}\n{logs}") from None

    def stop(self) -> None:
        """End both parts; its kinds, objects and APIService stay."""
        for process in self._running:
            self._processes.stop(process)
        self._running = []

    def kill_operator(self) -> None:
        """``kill -9`` of the part that calls scalers; ``stop`` and ``start`` bring it back."""
        self._processes.kill(self._running[0])

    def operator_log(self) -> str:
        """What the operator printed."""
        return self._running[0].log.read_text(errors="replace")

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

    def _start_operator(self, port: int) -> ManagedProcess:
        command = (
            *(str(program("keda-operator")), f"--cert-dir={self._certificate_folder()}", "--leader-elect=false"),
            f"--metrics-bind-address=127.0.0.1:{free_port()}",
            f"--health-probe-bind-address=127.0.0.1:{free_port()}",
            f"--metrics-service-bind-address=127.0.0.1:{port}",
            *("--kube-api-qps=200", "--kube-api-burst=400"),
        )
        return self._processes.start("keda-operator", command, self._environ())

    def _start_adapter(self, operator_port: int) -> ManagedProcess:
        config = self._control_plane.kubeconfig
        command = (
            *(str(program("keda-adapter")), f"--lister-kubeconfig={config}", f"--authentication-kubeconfig={config}"),
            *(f"--authorization-kubeconfig={config}", "--bind-address=127.0.0.1"),
            *(f"--secure-port={self._metrics_port}", f"--cert-dir={self._certificate_folder()}"),
            f"--tls-cert-file={self._certificates.keda.certificate}",
            f"--tls-private-key-file={self._certificates.keda.key}",
            # By the name in its certificate.
            *(f"--metrics-service-address=localhost:{operator_port}", f"--port={free_port()}"),
        )
        return self._processes.start("keda-adapter", command, self._environ())
