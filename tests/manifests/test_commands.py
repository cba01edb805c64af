"""``gpu-autoscaler manifests``: from a user's file to objects, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from autoscaler.cli import app

CHAT = """
apiVersion: gpu-autoscaler.io/v1alpha1
kind: InferenceAutoscaler
metadata: {name: chat%s}
spec:
  slo: {ttft: 2s, itl: 50ms}
  minReplicas: 2
  maxReplicas: 12
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: chat-server}
"""
Command = Callable[..., Result]


@pytest.fixture
def manifests(tmp_path: Path) -> Command:
    """Runs the command on a file with this text."""

    def run(kind: str, text: str, *arguments: str, service: str = "chat") -> Result:
        file = tmp_path / "chat.yaml"
        file.write_text(text, encoding="utf-8")
        return CliRunner().invoke(app, ["manifests", kind, service, "--file", str(file), *arguments])

    return run


@pytest.mark.parametrize("kind", ["hpa", "keda"])
@pytest.mark.parametrize(
    ("metadata", "arguments", "namespace"),
    [
        pytest.param("", (), "default", id="nowhere said"),
        pytest.param("", ("--namespace", "prod"), "prod", id="told"),
        pytest.param(", namespace: test", ("-n", "prod"), "test", id="the file comes first"),
    ],
)
def test_bounds_target_and_namespace_come_from_the_file(
    manifests: Command, *, kind: str, metadata: str, arguments: tuple[str, ...], namespace: str
) -> None:
    other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: chat}\n---\n"
    result = manifests(kind, other + CHAT % metadata, *arguments)
    assert result.exit_code == 0, result.output
    printed = yaml.safe_load(result.stdout)
    assert printed["metadata"] == {"name": "chat", "namespace": namespace}
    spec = printed["spec"]
    assert spec["scaleTargetRef"]["name"] == "chat-server"
    bounds = ("minReplicas", "maxReplicas") if kind == "hpa" else ("minReplicaCount", "maxReplicaCount")
    assert [spec[name] for name in bounds] == [2, 12]


def test_options_reach_the_objects(manifests: Command) -> None:
    arguments = ("--trigger", "external", "--scaler-address", "a:1", "--tls-secret", "s", "--client-certificate")
    result = manifests("keda", CHAT % "", *arguments, "--kubernetes", "1.30")
    assert result.exit_code == 0, result.output
    authentication, scaled = yaml.safe_load_all(result.stdout)
    assert len(authentication["spec"]["secretTargetRef"]) == 3
    (trigger,) = scaled["spec"]["triggers"]
    assert (trigger["type"], trigger["metadata"]["scalerAddress"]) == ("external", "a:1")
    assert "tolerance: '0'" not in result.stdout


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        pytest.param("a: [", (), "no YAML", id="no YAML"),
        pytest.param("kind: ConfigMap", (), "no InferenceAutoscaler", id="another kind"),
        pytest.param("- 1\n---\ntext\n", (), "no InferenceAutoscaler", id="no objects"),
        pytest.param((CHAT % "").replace("name: chat}", "name: talk}"), (), "holds 0", id="another name"),
        pytest.param(f"{CHAT % ''}---{CHAT % ''}", (), "holds 2", id="twice"),
        pytest.param((CHAT % "").replace("2s", "soon"), (), "spec.slo.ttft", id="a wrong spec"),
        pytest.param(f"{CHAT % ''}  mode: Scale\n", (), "mode: Advise", id="scaled by ourselves"),
        pytest.param(
            (CHAT % "")
            .replace("apps/v1, kind: Deployment", "ray.io/v1, kind: RayService")
            .replace("chat-server}", "chat-server, workerGroup: gpu}"),
            (),
            "no scale subresource",
            id="no scale",
        ),
        pytest.param(CHAT % "", ("--kubernetes", "newest"), "--kubernetes", id="version"),
        pytest.param(CHAT % "", ("--client-certificate",), "--tls-secret", id="certificate of nothing"),
    ],
)
def test_what_is_wrong_is_said(manifests: Command, text: str, arguments: tuple[str, ...], said: str) -> None:
    result = manifests("keda", text, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_a_file_that_is_not_there() -> None:
    result = CliRunner().invoke(app, ["manifests", "hpa", "chat", "--file", "/nowhere/chat.yaml"])
    assert result.exit_code == 2
    assert "/nowhere/chat.yaml" in result.stderr


def test_standard_input() -> None:
    result = CliRunner().invoke(app, ["manifests", "hpa", "chat", "--file", "-"], input=CHAT % "")
    assert yaml.safe_load(result.stdout)["kind"] == "HorizontalPodAutoscaler"
