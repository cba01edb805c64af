"""Facts of external metrics, HPAs and ScaledObjects -> findings."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autoscaler.doctor.facts import Certificate
from autoscaler.doctor.finding import CheckId, Severity
from autoscaler.ports import PortError, RefusedError, UnavailableError
from tests.doctor.spoiling import (
    Change,
    Spoil,
    assigned,
    bad,
    both,
    external,
    found,
    hpa_with,
    nothing,
    scaled_object_with,
)
from tests.doctor.world import Authority, World, api_service

ERROR, WARNING = Severity.ERROR, Severity.WARNING
# What the API server writes where an HPA has no policies.
FILLED_IN = [
    {"type": "Pods", "value": 4, "periodSeconds": 15},
    {"type": "Percent", "value": 100, "periodSeconds": 15},
]


@pytest.mark.parametrize("make", [pytest.param(hpa_with, id="hpa"), pytest.param(scaled_object_with, id="keda")])
def test_what_manifests_prints_is_well(make: Callable[[Change], Spoil]) -> None:
    world = World()
    make(nothing)(world)
    assert bad(found(world)) == []


@pytest.mark.parametrize(
    ("spoil", "severity", "check", "words"),
    [
        pytest.param(
            both(hpa_with(nothing), assigned("api_service", None)),
            ERROR,
            CheckId.API_SERVICE,
            "nobody serves",
            id="no APIService for an HPA",
        ),
        pytest.param(
            both(hpa_with(nothing), assigned("api_service", api_service(service="keda-operator-metrics-apiserver"))),
            ERROR,
            CheckId.API_SERVICE,
            "manifests keda",
            id="KEDA owns external metrics",
        ),
        pytest.param(
            assigned("api_service", api_service(available="False")),
            ERROR,
            CheckId.API_SERVICE,
            "no replica is ready",
            id="APIService not available",
        ),
        pytest.param(
            both(
                assigned("api_service", api_service()),
                lambda world: world.reads.update({"shop/chat": UnavailableError("stale: 70 s")}),
            ),
            WARNING,
            CheckId.API_SERVICE,
            "stale: 70 s",
            id="number refused to HPAs",
        ),
        pytest.param(
            assigned("api_service", api_service(insecureSkipTLSVerify=True)),
            WARNING,
            CheckId.CERTIFICATE,
            "not checked",
            id="TLS not verified",
        ),
        pytest.param(
            assigned("api_service", api_service(ca=b"no certificate")),
            ERROR,
            CheckId.CERTIFICATE,
            "caBundle can't be read",
            id="no PEM in caBundle",
        ),
        pytest.param(
            hpa_with(lambda hpa: external(hpa).update(target={"type": "Value", "value": "1"})),
            ERROR,
            CheckId.HPA,
            "its target is Value 1",
            id="HPA by Value",
        ),
        pytest.param(
            hpa_with(lambda hpa: external(hpa)["target"].update(averageValue="500m")),
            ERROR,
            CheckId.HPA,
            "AverageValue 500m",
            id="HPA by half",
        ),
        pytest.param(
            hpa_with(lambda hpa: external(hpa)["metric"].update(selector={"matchLabels": {"service": "x"}})),
            ERROR,
            CheckId.HPA,
            "matches no InferenceAutoscaler",
            id="HPA without a service",
        ),
        pytest.param(
            hpa_with(lambda hpa: hpa["spec"]["scaleTargetRef"].update(name="other")),
            ERROR,
            CheckId.HPA,
            "has another target",
            id="HPA on another target",
        ),
        pytest.param(
            hpa_with(lambda hpa: hpa["spec"].update(behavior={"scaleUp": {"tolerance": "0"}})),
            WARNING,
            CheckId.HPA,
            "nine times",
            id="bare tolerance",
        ),
        pytest.param(
            hpa_with(lambda hpa: hpa["spec"]["behavior"]["scaleUp"].pop("tolerance")),
            WARNING,
            CheckId.HPA,
            "no tolerance of 0 in scaleUp:",
            id="HPA with the default tolerance",
        ),
        pytest.param(
            hpa_with(lambda hpa: hpa["spec"]["behavior"]["scaleUp"].update(policies=FILLED_IN)),
            WARNING,
            CheckId.HPA,
            "nine times",
            id="policies that the API server filled in",
        ),
        pytest.param(
            hpa_with(lambda hpa: hpa["spec"]["behavior"]["scaleDown"].pop("stabilizationWindowSeconds")),
            WARNING,
            CheckId.HPA,
            "300 s (the default)",
            id="HPA with the default window",
        ),
        pytest.param(
            hpa_with(lambda hpa: hpa["spec"].update(maxReplicas=2)),
            WARNING,
            CheckId.HPA,
            "stops at 2 replicas",
            id="HPA with a lower bound",
        ),
        pytest.param(
            hpa_with(lambda hpa: hpa["spec"].update(minReplicas=3)),
            WARNING,
            CheckId.HPA,
            "keeps 3 replicas",
            id="HPA with a higher floor",
        ),
        pytest.param(
            hpa_with(
                lambda hpa: hpa.update(
                    status={
                        "conditions": [
                            {
                                "type": "ScalingActive",
                                "status": "False",
                                "reason": "FailedGetExternalMetric",
                                "message": "why",
                            }
                        ]
                    }
                )
            ),
            ERROR,
            CheckId.HPA,
            "FailedGetExternalMetric: why",
            id="HPA that does not scale",
        ),
        pytest.param(
            scaled_object_with(lambda made: made["spec"]["triggers"][0].update(metricType="Value")),
            ERROR,
            CheckId.SCALED_OBJECT,
            "metricType Value",
            id="ScaledObject by Value",
        ),
        pytest.param(
            scaled_object_with(lambda made: made["spec"]["triggers"][0]["metadata"].update(service="x")),
            ERROR,
            CheckId.SCALED_OBJECT,
            "no InferenceAutoscaler x",
            id="ScaledObject without a service",
        ),
        pytest.param(
            scaled_object_with(lambda made: made["spec"]["triggers"][0]["metadata"].update(Variant="x")),
            ERROR,
            CheckId.SCALED_OBJECT,
            "is written variant",
            id="ScaledObject with a wrong key",
        ),
        pytest.param(
            both(
                scaled_object_with(nothing),
                lambda world: world.services.update({"gpu-autoscaler/gpu-autoscaler": None}),
            ),
            ERROR,
            CheckId.SCALED_OBJECT,
            "a Service that is not there",
            id="no Service for the scaler",
        ),
        pytest.param(
            scaled_object_with(
                lambda made: made["spec"]["triggers"][0]["metadata"].update(
                    scalerAddress="gpu-autoscaler.gpu-autoscaler.svc:9999"
                )
            ),
            ERROR,
            CheckId.SCALED_OBJECT,
            "has no port 9999",
            id="no such port of the scaler",
        ),
        pytest.param(
            scaled_object_with(lambda made: made["spec"].update(fallback={"replicas": 7})),
            WARNING,
            CheckId.SCALED_OBJECT,
            "falls back to 7",
            id="fallback",
        ),
        pytest.param(
            scaled_object_with(lambda made: made["spec"].update(minReplicaCount=0, cooldownPeriod=300)),
            WARNING,
            CheckId.SCALED_OBJECT,
            "waits 300 s more",
            id="cooldown",
        ),
        pytest.param(
            scaled_object_with(
                lambda made: (
                    made["spec"].update(minReplicaCount=0, pollingInterval=60),
                    made["spec"]["triggers"][0].update(type="external"),
                )
            ),
            WARNING,
            CheckId.SCALED_OBJECT,
            "every 60 s",
            id="slow polling",
        ),
        pytest.param(
            scaled_object_with(
                lambda made: made["metadata"].update(annotations={"autoscaling.keda.sh/paused": "true"})
            ),
            WARNING,
            CheckId.SCALED_OBJECT,
            "paused",
            id="paused",
        ),
    ],
)
def test_a_fault_is_found(spoil: Spoil, severity: Severity, check: CheckId, words: str) -> None:
    world = World()
    spoil(world)
    told = [each for each in found(world) if each.check is check and each.severity is severity]
    assert any(words in f"{each.message} {each.fix}" for each in told), [each.message for each in told]
    assert all(each.fix for each in told)


AUTHORITY, STRANGER = Authority(), Authority()


@pytest.mark.parametrize(
    ("pem", "severity", "words"),
    [
        pytest.param(AUTHORITY.issue(), None, "", id="right"),
        pytest.param(STRANGER.issue(), ERROR, "no authority", id="of another authority"),
        pytest.param(AUTHORITY.issue(hosts=("other.ops.svc",)), ERROR, "gpu-autoscaler.ops.svc", id="another name"),
        pytest.param(AUTHORITY.issue(days=-1), ERROR, "expired", id="expired"),
        pytest.param(AUTHORITY.issue(days=3), WARNING, "expires on", id="about to expire"),
        pytest.param(RefusedError("no such file"), WARNING, "no such file", id="not there"),
        pytest.param(b"nonsense", WARNING, "can't be read", id="no certificate"),
    ],
)
def test_the_certificate_is_compared_with_the_authority(
    pem: bytes | PortError, severity: Severity | None, words: str
) -> None:
    given = Certificate(source="/tls/tls.crt", key="certificateFile", pem=pem, aggregated=True)
    world = World(api_service=api_service(ca=AUTHORITY.pem), certificates=[given])
    told = [each for each in bad(found(world)) if each.check is CheckId.CERTIFICATE]
    assert [each.severity for each in told] == ([] if severity is None else [severity])
    assert all(words in f"{each.message} {each.fix}" for each in told)
