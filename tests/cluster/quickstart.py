"""Command blocks of docs/kubernetes.md, pasted as they are, and stand-ins for what the test cluster lacks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.build import program
from tests.cluster.installed import RELEASE, InstalledController
from tests.cluster.kubeconfig import write_kubeconfig
from tests.cluster.kubelet.behaviour import PREFIX
from tests.cluster.processes import wait_for
from tests.cluster.running import ROOT, Cluster

PAGE = ROOT / "docs/kubernetes.md"
# About 10 requests/s of 20 tokens in SLO: four sequences at a time, 20 ms a step.
ENGINE = "--model chat --step-base-ms 18 --max-num-seqs 4 --startup-s 1"
_SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^( *)```sh\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def blocks(section: str) -> list[str]:
    """The blocks of commands (``sh``) in a section, by its title. Raises KeyError."""
    sections = dict(_SECTION.findall(PAGE.read_text(encoding="utf-8")))
    return [textwrap.dedent(each) for _, each in _BLOCK.findall(sections[section])]


@dataclass
class Terminal:
    """A user's terminal: kubectl, helm and gpu-autoscaler, a kubeconfig for one namespace, the checkout's root.

    After each block come the parts that the test cluster lacks: an emulated engine for pods of vLLM's image, and the
    process for the chart's pods.
    """

    cluster: Cluster
    namespace: str
    folder: Path
    controller: InstalledController | None = None

    def paste(self, block: str) -> str:
        """What a block prints. Raises AssertionError, with what it says, where one of its commands fails."""
        done = subprocess.run(
            ("bash", "-euo", "pipefail", "-c", block),
            cwd=ROOT,
            env=self._environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        self._start_engines()
        self._start_controller()
        self._lead_keda()
        return done.stdout

    def close(self) -> None:
        """End the process, and remove what was installed."""
        if self.controller is not None:
            self.controller.stop()
        self.cluster.helm("uninstall", RELEASE, "--namespace", RELEASE, "--ignore-not-found")
        namespace = f"/api/v1/namespaces/{RELEASE}"
        self.cluster.api.delete(namespace)
        wait_for(lambda: self.cluster.api.find(namespace) is None, "the release's namespace is gone")

    def _environ(self) -> dict[str, str]:
        config = write_kubeconfig(
            self.folder / "user.conf",
            server=self.cluster.server,
            ca=self.cluster.certificates.ca.certificate,
            client=self.cluster.certificates.admin,
            namespace=self.namespace,
        )
        commands = [program("kubectl").parent, program("helm").parent, Path(sys.executable).parent]
        homes = ("KUBECACHEDIR", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")
        return {
            **os.environ,
            **{home: str(self.folder / home.lower()) for home in homes},
            "PATH": os.pathsep.join([*map(str, commands), os.environ["PATH"]]),
            "KUBECONFIG": str(config),
            "REGISTRY": "registry.example.com/team",
        }

    def _start_engines(self) -> None:
        collection = f"/apis/apps/v1/namespaces/{self.namespace}/deployments"
        for each in self.cluster.api.items(collection):
            name, template = each["metadata"]["name"], each["spec"]["template"]
            if f"{PREFIX}engine" in template["metadata"].get("annotations", {}):
                continue
            change = {"metadata": {"annotations": {f"{PREFIX}engine": ENGINE}}}
            self.cluster.api.patch(f"{collection}/{name}", {"spec": {"template": change}})

    def _start_controller(self) -> None:
        if self.controller is not None or self.cluster.api.find(self._path("configmaps", RELEASE)) is None:
            return
        self.controller = InstalledController(
            self.cluster, self.folder, RELEASE, self.cluster.kubeconfig_for_service_account(RELEASE, RELEASE)
        )
        self.controller.start()
        self.controller.await_ready()
        self.controller.publish()

    def _lead_keda(self) -> None:
        """What the name of the scaler's Service does: KEDA finds the process."""
        path = f"/apis/keda.sh/v1alpha1/namespaces/{self.namespace}/scaledobjects/chat"
        found = self.cluster.api.find(path)
        if found is None or self.controller is None:
            return
        triggers = found["spec"]["triggers"]
        named = {each["metadata"]["scalerAddress"] for each in triggers}
        address = f"localhost:{self.controller.scaler_port}"
        if named == {address}:
            return
        assert named == {f"{RELEASE}.{RELEASE}.svc:9090"}, "the address of the Service that the chart makes"
        ports = self.cluster.api.get(self._path("services", RELEASE))["spec"]["ports"]
        assert 9090 in {each["port"] for each in ports}
        for each in triggers:
            each["metadata"]["scalerAddress"] = address
        self.cluster.api.patch(path, {"spec": {"triggers": triggers}})

    def _path(self, plural: str, name: str) -> str:
        return f"/api/v1/namespaces/{RELEASE}/{plural}/{name}"
