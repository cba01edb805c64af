"""``gpu-autoscaler manifests`` without a file: the service is the cluster's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from autoscaler.cli import app
from tests.cluster.api import Json
from tests.cluster.kubeconfig import write_kubeconfig
from tests.cluster.processes import free_port
from tests.cluster.running import Cluster

CRDS = Path(__file__).parents[2] / "charts/gpu-autoscaler/crds"


def manifests(kind: str, *arguments: str, service: str = "chat") -> Result:
    return CliRunner().invoke(app, ["manifests", kind, service, *arguments])


def autoscaler(name: str = "chat", **spec: object) -> Json:
    return {
        "apiVersion": "gpu-autoscaler.io/v1alpha1",
        "kind": "InferenceAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "slo": {"ttft": "2s"},
            "maxReplicas": 12,
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat-server"},
            **spec,
        },
    }


def test_no_kubeconfig(tmp_path: Path) -> None:
    result = manifests("hpa", "--kubeconfig", str(tmp_path / "none.conf"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "none.conf" in result.stderr
    assert "--file" in result.stderr


def test_a_context_that_is_not_there(tmp_path: Path) -> None:
    config = write_kubeconfig(tmp_path / "test.conf", server="https://127.0.0.1:1", ca=tmp_path / "ca.crt", token="t")
    result = manifests("keda", "--kubeconfig", str(config), "--context", "production")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "production" in result.stderr
    assert "can't be used" in result.stderr


def test_no_cluster_there(tmp_path: Path) -> None:
    config = tmp_path / "test.conf"
    server = f"http://127.0.0.1:{free_port()}"
    document = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
        "current-context": "c",
    }
    config.write_text(json.dumps(document))
    result = manifests("hpa", "--kubeconfig", str(config))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the cluster can't be asked" in result.stderr


def test_a_file_and_a_cluster_are_too_much(tmp_path: Path) -> None:
    result = manifests("hpa", "--file", str(tmp_path / "chat.yaml"), "--context", "production")
    assert result.exit_code == 2
    assert "one or the other" in result.stderr


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    cluster.define_kinds(CRDS)
    with cluster.namespace() as name:
        yield name


@pytest.mark.cluster
@pytest.mark.parametrize("kind", ["hpa", "keda"])
def test_the_service_of_the_context_and_the_version_of_the_cluster(
    cluster: Cluster, namespace: str, tmp_path: Path, kind: str
) -> None:
    cluster.apply([autoscaler()], namespace=namespace)
    config = write_kubeconfig(
        tmp_path / "test.conf",
        server=cluster.server,
        ca=cluster.certificates.ca.certificate,
        client=cluster.certificates.admin,
        namespace=namespace,
    )
    here = manifests(kind, "--kubeconfig", str(config))
    named = manifests(kind, "--kubeconfig", str(cluster.kubeconfig), "--namespace", namespace)
    assert (here.exit_code, here.stderr) == (0, "")
    assert here.stdout == named.stdout
    printed = yaml.safe_load(here.stdout)
    assert printed["metadata"] == {"name": "chat", "namespace": namespace}
    assert printed["spec"]["scaleTargetRef"]["name"] == "chat-server"
    assert "tolerance" in here.stdout, "this cluster is new enough"
    older = manifests(kind, "--kubeconfig", str(config), "--kubernetes", "1.30")
    assert "tolerance: '0'" not in older.stdout


@pytest.mark.cluster
def test_one_that_is_not_there_is_told_with_those_that_are(cluster: Cluster, namespace: str) -> None:
    cluster.apply([autoscaler("talk"), autoscaler("draw")], namespace=namespace)
    result = manifests("hpa", "--kubeconfig", str(cluster.kubeconfig), "-n", namespace)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"no InferenceAutoscaler {namespace}/chat" in result.stderr
    assert f"{namespace}/draw" in result.stderr
    assert f"{namespace}/talk" in result.stderr


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param({"mode": "Scale"}, "mode: Advise", id="scaled by the autoscaler itself"),
        pytest.param({"stepTime": {"profile": "none/such/tp1"}}, "spec.stepTime.profile", id="a refused spec"),
    ],
)
def test_one_that_can_not_be_followed(cluster: Cluster, namespace: str, spec: Json, said: str) -> None:
    cluster.apply([autoscaler(**spec)], namespace=namespace)
    result = manifests("keda", "--kubeconfig", str(cluster.kubeconfig), "-n", namespace)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


@pytest.mark.cluster
def test_who_may_not_look_is_told_so(cluster: Cluster, namespace: str) -> None:
    config = cluster.kubeconfig_for_service_account(namespace, "default")
    result = manifests("hpa", "--kubeconfig", str(config))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "forbidden" in result.stderr
