"""Facts of a cluster -> findings: one fault at a time in a world that is otherwise well."""

from __future__ import annotations

import pytest

from adapters.engines.fetched import FetchedPage
from adapters.kubernetes.api_errors import NotFoundError
from autoscaler.doctor.examination import CLUSTER_CHECKS, has_errors
from autoscaler.doctor.finding import CheckId, Severity
from autoscaler.domain.reading import Unknown, UnknownReason
from tests.doctor.spoiling import Spoil, assigned, bad, both, found, lease, refused, rival, set_condition
from tests.doctor.world import IDLE_PAGE, NOW_S, PAGE, World, resource, stamp

ERROR, WARNING = Severity.ERROR, Severity.WARNING


def without(page: bytes, words: bytes) -> bytes:
    """A page without the lines that have these words."""
    return b"\n".join(line for line in page.split(b"\n") if words not in line)


def test_in_a_world_without_faults_every_check_is_ok() -> None:
    findings = found(World())
    assert bad(findings) == []
    assert {each.check for each in findings} == {check.id for check in CLUSTER_CHECKS} | {CheckId.API_SERVER}
    assert not has_errors(findings)


@pytest.mark.parametrize(
    ("spoil", "severity", "check", "words"),
    [
        pytest.param(
            assigned("version", {"gitVersion": "v1.32.1"}), WARNING, CheckId.VERSION, "no tolerance", id="old version"
        ),
        pytest.param(
            assigned("version", {"gitVersion": "v1.33.0"}), WARNING, CheckId.VERSION, "feature gate", id="gated version"
        ),
        pytest.param(
            assigned("definition", NotFoundError("none")),
            ERROR,
            CheckId.DEFINITION,
            "not installed",
            id="no definition",
        ),
        pytest.param(
            lambda world: world.definition["spec"]["versions"][0].update(name="v1"),
            ERROR,
            CheckId.DEFINITION,
            "does not serve v1alpha1",
            id="another version of the definition",
        ),
        pytest.param(
            lambda world: world.definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"][
                "properties"
            ].pop("slo"),
            ERROR,
            CheckId.DEFINITION,
            "properties.spec.properties.slo",
            id="another schema",
        ),
        pytest.param(assigned("skew_s", 7.0), WARNING, CheckId.CLOCK, "ahead of", id="server's clock ahead"),
        pytest.param(assigned("skew_s", -7.0), WARNING, CheckId.CLOCK, "behind", id="server's clock behind"),
        pytest.param(assigned("rights", [refused("update")]), ERROR, CheckId.RIGHTS, "may not update", id="no right"),
        pytest.param(assigned("leases", []), ERROR, CheckId.LEADER, "there is none", id="no lease"),
        pytest.param(
            assigned("leases", lease(holderIdentity="")), ERROR, CheckId.LEADER, "nobody leads", id="released"
        ),
        pytest.param(
            assigned("leases", lease(renewTime=stamp(NOW_S - 60))), ERROR, CheckId.LEADER, "for 60 s", id="leader gone"
        ),
        pytest.param(
            assigned("leases", lease(renewTime=stamp(NOW_S + 30))),
            WARNING,
            CheckId.LEADER,
            "30 s ahead",
            id="leader's clock",
        ),
        pytest.param(
            lambda world: world.resource["spec"].update(slo={}), ERROR, CheckId.SPEC, "spec.slo", id="refused spec"
        ),
        pytest.param(assigned("resources", []), WARNING, CheckId.SPEC, "there is none", id="no resource"),
        pytest.param(
            lambda world: world.resource["spec"]["targetRef"].update(name="gone"),
            ERROR,
            CheckId.TARGET,
            "spec.targetRef",
            id="no target",
        ),
        pytest.param(
            both(lambda world: world.resource["spec"].update(mode="Scale"), assigned("hpas", [rival()])),
            ERROR,
            CheckId.OWNER,
            "HorizontalPodAutoscaler rival also writes",
            id="HPA on a scaled target",
        ),
        pytest.param(
            assigned("hpas", [rival()]), WARNING, CheckId.OWNER, "on cpu, not on our number", id="HPA beside advice"
        ),
        pytest.param(
            assigned("resources", [resource("chat"), resource("other")]),
            ERROR,
            CheckId.OWNER,
            "InferenceAutoscaler chat",
            id="two on one target",
        ),
        pytest.param(
            lambda world: (
                world.resource["spec"].update(mode="Scale"),
                world.deployment["metadata"].update(
                    managedFields=[
                        {
                            "manager": "argocd-controller",
                            "operation": "Apply",
                            "fieldsV1": {"f:spec": {"f:replicas": {}}},
                        }
                    ]
                ),
            ),
            ERROR,
            CheckId.OWNER,
            "argocd-controller",
            id="Argo CD applies the count",
        ),
        pytest.param(
            lambda world: world.resource.pop("status"), ERROR, CheckId.STATUS, "no decision was ever", id="no status"
        ),
        pytest.param(
            lambda world: world.resource["status"].update(decidedAt=stamp(NOW_S - 300)),
            ERROR,
            CheckId.STATUS,
            "300 s old",
            id="stale status",
        ),
        pytest.param(
            lambda world: world.resource["metadata"].update(generation=2),
            WARNING,
            CheckId.STATUS,
            "latest change",
            id="change not taken in",
        ),
        pytest.param(set_condition("Ready", "False"), ERROR, CheckId.CONDITIONS, "Ready is False", id="not ready"),
        pytest.param(set_condition("OwnerConflict", "True"), ERROR, CheckId.CONDITIONS, "OwnerConflict", id="conflict"),
        pytest.param(set_condition("MetricsKnown", "False"), WARNING, CheckId.CONDITIONS, "it is so", id="unknown"),
        pytest.param(
            assigned("page", Unknown(UnknownReason.UNREACHABLE, "refused")),
            WARNING,
            CheckId.METRICS,
            "--through-api-server",
            id="page not reached",
        ),
        pytest.param(
            assigned("page", FetchedPage(b"DCGM_FI_DEV_GPU_UTIL 1\n")),
            ERROR,
            CheckId.METRICS,
            "dcgm-exporter",
            id="another engine",
        ),
        pytest.param(
            assigned("page", FetchedPage(without(PAGE, b"time_to_first_token"))),
            ERROR,
            CheckId.METRICS,
            "ttft",
            id="no series for the SLO",
        ),
        pytest.param(
            assigned("page", FetchedPage(without(IDLE_PAGE, b"time_to_first_token"))),
            WARNING,
            CheckId.METRICS,
            "first request",
            id="no series for the SLO yet",
        ),
        pytest.param(assigned("pods", []), WARNING, CheckId.METRICS, "no ready pod", id="no pod"),
    ],
)
def test_a_fault_is_found(spoil: Spoil, severity: Severity, check: CheckId, words: str) -> None:
    world = World()
    spoil(world)
    told = [each for each in found(world) if each.check is check and each.severity is severity]
    assert any(words in f"{each.message} {each.fix}" for each in told), [each.message for each in told]
    assert all(each.fix for each in told)
