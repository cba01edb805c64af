"""Printed objects: they do as the published number says, on every version of Kubernetes, for every kind of target."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from adapters.serving.keda.trigger import trigger_of
from adapters.serving.keda.wire import ScaledObjectRef
from adapters.serving.published import Question
from autoscaler.domain.resource import TargetRef, VariantSource
from autoscaler.manifests import (
    DEFAULT_KUBERNETES,
    KedaOptions,
    KubernetesVersion,
    ManifestError,
    ScaledService,
    ScalerTls,
    TriggerType,
    hpa_manifests,
    keda_manifests,
)

DEPLOYMENT = TargetRef(api_version="apps/v1", kind="Deployment", name="chat-server")
GROUPS = TargetRef(api_version="leaderworkerset.x-k8s.io/v1", kind="LeaderWorkerSet", name="chat-groups")


def a_service(*targets: TargetRef, name: str = "chat", min_replicas: int = 1, max_replicas: int = 30) -> ScaledService:
    """One variant for each target, called v0, v1, ...; a Deployment where none is given."""
    return ScaledService(
        namespace="prod",
        name=name,
        min_replicas=min_replicas,
        max_replicas=max_replicas,
        sources=tuple(
            VariantSource(variant=f"v{index}", target=target) for index, target in enumerate(targets or (DEPLOYMENT,))
        ),
    )


def objects(text: str) -> list[dict[str, Any]]:
    """The documents of a text."""
    return list(yaml.safe_load_all(text))


def hpas(service: ScaledService, version: str = str(DEFAULT_KUBERNETES)) -> list[dict[str, Any]]:
    return objects(hpa_manifests(service, kubernetes=KubernetesVersion.parse(version)))


def test_an_hpa_follows_the_number_of_its_service() -> None:
    (hpa,) = hpas(a_service(min_replicas=2))
    assert (hpa["apiVersion"], hpa["kind"]) == ("autoscaling/v2", "HorizontalPodAutoscaler")
    assert hpa["metadata"] == {"name": "chat", "namespace": "prod"}
    spec = hpa["spec"]
    assert spec["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat-server"}
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 30)
    (metric,) = spec["metrics"]
    assert metric == {
        "type": "External",
        "external": {
            "metric": {"name": "desired_replicas", "selector": {"matchLabels": {"service": "chat"}}},
            "target": {"type": "AverageValue", "averageValue": "1"},
        },
    }


@pytest.mark.parametrize("direction", ["scaleUp", "scaleDown"])
@pytest.mark.parametrize("kind", ["hpa", "keda"])
def test_no_step_is_slowed_or_swallowed(kind: str, direction: str) -> None:
    """A rule without policies of its own would be given 4 pods or 100 % every 15 s by the API server."""
    if kind == "hpa":
        behavior = hpas(a_service(max_replicas=40))[0]["spec"]["behavior"]
    else:
        (scaled,) = objects(keda_manifests(a_service(max_replicas=40), KedaOptions()))
        behavior = scaled["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    rules = behavior[direction]
    assert rules["tolerance"] == "0"
    assert rules["stabilizationWindowSeconds"] == 0
    assert rules["selectPolicy"] == "Max"
    assert [policy for policy in rules["policies"] if policy["type"] == "Pods" and policy["value"] >= 40]


@pytest.mark.parametrize(
    ("version", "tolerance", "said"),
    [
        pytest.param("1.23", False, "--horizontal-pod-autoscaler-tolerance=0", id="field unknown"),
        pytest.param("1.32", False, "from 10 replicas on a step of 1", id="the last without it"),
        pytest.param("1.33", True, "HPAConfigurableTolerance", id="alpha"),
        pytest.param("v1.34.2", True, "HPAConfigurableTolerance", id="alpha, with a patch"),
        pytest.param("1.35", True, None, id="beta"),
        pytest.param("2.0", True, None, id="some day"),
    ],
)
def test_what_a_version_lacks_is_left_out_and_said(version: str, *, tolerance: bool, said: str | None) -> None:
    parsed = KubernetesVersion.parse(version)
    for text in (
        hpa_manifests(a_service(), kubernetes=parsed),
        keda_manifests(a_service(), KedaOptions(), kubernetes=parsed),
    ):
        comments = " ".join(line.removeprefix("# ") for line in text.splitlines() if line.startswith("#"))
        assert text.count("tolerance: '0'") == (2 if tolerance else 0)
        assert said is None or said in comments
        assert said is not None or "tolerance" not in comments


@pytest.mark.parametrize("text", ["", "1", "one.two", "1.x", "latest", "-1.30"])
def test_a_version_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"1\.36"):
        KubernetesVersion.parse(text)


@pytest.mark.parametrize(
    ("version", "lowest", "said"),
    [
        pytest.param("1.36", 1, True, id="an HPA stops at one"),
        pytest.param("1.37", 0, False, id="an HPA goes to zero"),
    ],
)
def test_a_service_that_may_go_to_zero(version: str, lowest: int, *, said: bool) -> None:
    service, kubernetes = a_service(min_replicas=0), KubernetesVersion.parse(version)
    text = hpa_manifests(service, kubernetes=kubernetes)
    (hpa,) = objects(text)
    assert hpa["spec"]["minReplicas"] == lowest
    assert ("HPAScaleToZero" in text) is said
    (scaled,) = objects(keda_manifests(service, KedaOptions(), kubernetes=kubernetes))
    assert scaled["spec"]["minReplicaCount"] == 0


def test_each_variant_has_an_object_that_follows_its_own_number() -> None:
    service = a_service(DEPLOYMENT, GROUPS, min_replicas=2)
    first, second = hpas(service)
    assert [each["metadata"]["name"] for each in (first, second)] == ["chat-v0", "chat-v1"]
    assert [each["spec"]["scaleTargetRef"]["kind"] for each in (first, second)] == ["Deployment", "LeaderWorkerSet"]
    assert second["spec"]["metrics"][0]["external"]["metric"]["selector"]["matchLabels"] == {
        "service": "chat",
        "variant": "v1",
    }
    scaled = objects(keda_manifests(service, KedaOptions()))
    assert [each["spec"]["minReplicaCount"] for each in scaled] == [0, 0]
    assert [each["spec"]["triggers"][0]["metadata"]["variant"] for each in scaled] == ["v0", "v1"]


@pytest.mark.parametrize("trigger", list(TriggerType))
def test_a_scaled_object_asks_for_the_service(trigger: TriggerType) -> None:
    options = KedaOptions(trigger=trigger, scaler_address="scaler.example:50051")
    (scaled,) = objects(keda_manifests(a_service(min_replicas=0), options))
    assert (scaled["apiVersion"], scaled["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    spec = scaled["spec"]
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (0, 30)
    assert spec["triggers"] == [
        {"type": trigger.value, "metadata": {"scalerAddress": "scaler.example:50051", "service": "chat"}}
    ]
    assert "fallback" not in spec


@pytest.mark.parametrize(
    ("tls", "parameters"),
    [
        pytest.param(ScalerTls(secret="scaler-tls"), {"caCert": "ca.crt"}, id="server"),
        pytest.param(
            ScalerTls(secret="scaler-tls", client_certificate=True),
            {"caCert": "ca.crt", "tlsClientCert": "tls.crt", "tlsClientKey": "tls.key"},
            id="both sides",
        ),
    ],
)
def test_tls_takes_an_authentication_beside_it(tls: ScalerTls, parameters: dict[str, str]) -> None:
    authentication, scaled = objects(keda_manifests(a_service(), KedaOptions(tls=tls)))
    references = authentication["spec"]["secretTargetRef"]
    assert {each["parameter"]: each["key"] for each in references} == parameters
    assert {each["name"] for each in references} == {"scaler-tls"}
    (trigger,) = scaled["spec"]["triggers"]
    assert trigger["metadata"]["enableTLS"] == "true"
    assert trigger["authenticationRef"] == {"name": authentication["metadata"]["name"]}
    assert authentication["metadata"]["namespace"] == "prod"


def test_kserve_is_scaled_by_its_deployment_and_told_to_keep_off() -> None:
    target = TargetRef(api_version="serving.kserve.io/v1beta1", kind="InferenceService", name="llama")
    text = hpa_manifests(a_service(target))
    (hpa,) = objects(text)
    assert hpa["spec"]["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llama-predictor"}
    assert "serving.kserve.io/autoscalerClass: external" in text


@pytest.mark.parametrize(
    ("service", "said"),
    [
        pytest.param(
            a_service(TargetRef(api_version="ray.io/v1", kind="RayService", name="ray", worker_group="gpu")),
            "worker group gpu",
            id="worker group",
        ),
        pytest.param(
            a_service(TargetRef(api_version="ray.io/v1", kind="RayCluster", name="ray")),
            "RayCluster ray",
            id="no scale",
        ),
        pytest.param(a_service(name="x" * 64), "63", id="name too long"),
        pytest.param(a_service(DEPLOYMENT, GROUPS, name="x" * 62), "63", id="name too long with the variant"),
    ],
)
def test_what_can_not_be_made_right_is_refused(service: ScaledService, said: str) -> None:
    for make in (hpa_manifests, lambda each: keda_manifests(each, KedaOptions())):
        with pytest.raises(ManifestError, match=said):
            make(service)


@given(
    bounds=st.tuples(st.integers(0, 200), st.integers(0, 200)).map(sorted),
    targets=st.lists(st.sampled_from([DEPLOYMENT, GROUPS]), min_size=1, max_size=4),
    version=st.tuples(st.integers(1, 2), st.integers(0, 60)),
    tls=st.sampled_from([None, ScalerTls(secret="s")]),
)
def test_the_scaler_understands_what_is_printed(
    *, bounds: list[int], targets: list[TargetRef], version: tuple[int, int], tls: ScalerTls | None
) -> None:
    service = a_service(*targets, min_replicas=bounds[0], max_replicas=bounds[1])
    text = keda_manifests(service, KedaOptions(tls=tls), kubernetes=KubernetesVersion(*version))
    scaled = [each for each in objects(text) if each["kind"] == "ScaledObject"]
    assert len({each["metadata"]["name"] for each in scaled}) == len(targets)
    for each, source in zip(scaled, service.sources, strict=True):
        metadata, spec = each["spec"]["triggers"][0]["metadata"], each["spec"]
        trigger = trigger_of(
            ScaledObjectRef(name=each["metadata"]["name"], namespace=each["metadata"]["namespace"], metadata=metadata)
        )
        variant = source.variant if len(targets) > 1 else None
        assert trigger.question == Question(namespace="prod", name="chat", variant=variant)
        assert trigger.target_size == 1.0
        assert 0 <= spec["minReplicaCount"] <= bounds[0]
        assert spec["maxReplicaCount"] == max(1, bounds[1])
