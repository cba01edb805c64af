"""What the chart makes of the gateway, rendered by the real helm."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from autoscaler.config import load
from autoscaler.config.kubernetes_settings import ClusterGatewaySettings
from autoscaler.domain.resource import GATEWAY_LABELS
from tests.charts.rendering import NAMESPACE, RELEASE, Json, of_kind, render

pytestmark = pytest.mark.cluster

NAME = f"{RELEASE}-gateway"


def named(objects: list[Json], kind: str) -> Json:
    (found,) = (each for each in of_kind(objects, kind) if each["metadata"]["name"] == NAME)
    return found


def read(values: Mapping[str, Any], folder: Path) -> tuple[list[Json], ClusterGatewaySettings, tuple[str, ...]]:
    """The objects, and the configuration as the program reads it: the gateway's part, and the namespaces."""
    objects = render({**values, "gateway": {"enabled": True, **values.get("gateway", {})}})
    file = folder / "gateway.yaml"
    file.write_text(named(objects, "ConfigMap")["data"]["gateway.yaml"])
    settings = load(file)
    assert settings.kubernetes is not None
    assert settings.state_dir == Path("/run/gateway")
    return objects, settings.kubernetes.gateway, settings.kubernetes.namespaces


def test_there_is_none_unless_it_is_asked_for() -> None:
    assert [each["metadata"]["name"] for each in render() if "gateway" in each["metadata"]["name"]] == []


@pytest.mark.parametrize(
    "gateway",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"port": 9000, "metricsPort": 9001, "gracePeriodSeconds": 300}, id="others"),
    ],
)
def test_it_listens_at_the_ports_of_its_pods_and_ends_before_it_is_killed(
    gateway: Mapping[str, Any], tmp_path: Path
) -> None:
    objects, settings, _ = read({"gateway": gateway}, tmp_path)
    spec = named(objects, "Deployment")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"http": settings.port, "metrics": settings.metrics_port}
    (sleep, pause_s) = container["lifecycle"]["preStop"]["exec"]["command"]
    assert sleep == "sleep"
    assert spec["terminationGracePeriodSeconds"] > settings.grace_s + float(pause_s)


def test_the_defaults_are_the_programs_own(tmp_path: Path) -> None:
    _, settings, _ = read({}, tmp_path)
    assert settings == ClusterGatewaySettings(
        max_body_bytes=settings.max_body_bytes, connect_timeout_s=settings.connect_timeout_s
    )


def test_resources_find_it_without_a_selector() -> None:
    """``gateway: {}`` in a resource means pods with these labels in the controller's namespace."""
    pods = named(render({"gateway": {"enabled": True}}), "Deployment")
    assert pods["metadata"]["namespace"] == NAMESPACE
    assert dict(GATEWAY_LABELS).items() <= pods["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("namespaces", "read_everywhere", "roles"),
    [
        pytest.param([], {"pods", "deployments", "inferenceautoscalers"}, {}, id="all"),
        pytest.param(["chat"], set(), {"chat": {"pods", "deployments", "inferenceautoscalers"}}, id="one"),
        pytest.param(
            ["chat", "search"],
            {"pods", "deployments"},
            {"chat": {"inferenceautoscalers"}, "search": {"inferenceautoscalers"}},
            id="two",
        ),
    ],
)
def test_it_may_read_and_nothing_else(
    namespaces: list[str], read_everywhere: set[str], roles: Mapping[str, set[str]], tmp_path: Path
) -> None:
    objects, _, configured = read({"namespaces": namespaces, "mode": "Scale"}, tmp_path)
    assert list(configured) == namespaces
    looked_for = {"pods", "deployments", "inferenceautoscalers"}
    found: dict[str, set[str]] = {}
    everywhere: set[str] = set()
    for role in of_kind(objects, "ClusterRole") + of_kind(objects, "Role"):
        if role["metadata"]["name"] != f"{NAMESPACE}:{NAME}":
            continue
        assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"list", "watch"}
        resources = {each for rule in role["rules"] for each in rule["resources"]} & looked_for
        if role["kind"] == "Role":
            found[role["metadata"]["namespace"]] = resources
        else:
            everywhere = resources
    assert everywhere == read_everywhere
    assert found == roles
    bindings = [*of_kind(objects, "ClusterRoleBinding"), *of_kind(objects, "RoleBinding")]
    subjects = [each["subjects"] for each in bindings if each["roleRef"]["name"] == f"{NAMESPACE}:{NAME}"]
    assert subjects == [[{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}]] * len(subjects)
    assert len(subjects) == len(found) + bool(everywhere)


def test_the_controllers_selectors_and_the_gateways_do_not_catch_each_others_pods() -> None:
    objects = render({"gateway": {"enabled": True}, "networkPolicy": {"enabled": True}})
    for kind in ("Deployment", "PodDisruptionBudget", "NetworkPolicy"):
        gateways, (controllers,) = (
            named(objects, kind),
            [each for each in of_kind(objects, kind) if each["metadata"]["name"] == RELEASE],
        )
        key = "podSelector" if kind == "NetworkPolicy" else "selector"
        labels = [each["spec"][key]["matchLabels"]["app.kubernetes.io/component"] for each in (gateways, controllers)]
        assert labels == ["gateway", "controller"]
