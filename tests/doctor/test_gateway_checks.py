"""The gateway that an InferenceAutoscaler names: there, ready, and knowing the service."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from adapters.kubernetes.connection import KubernetesApi
from autoscaler.config.resource_reading import parse_resource
from autoscaler.doctor.facts import GatewayLook
from autoscaler.doctor.fetching import fetch_routes
from autoscaler.doctor.finding import CheckId, Finding, Severity
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.resource import GATEWAY_LABELS, AutoscalerResource
from autoscaler.domain.service import ServiceId
from autoscaler.ports import RefusedError
from tests.adapters_kubernetes.scripted_server import Exchange, ScriptedServer
from tests.doctor.spoiling import found
from tests.doctor.world import SUBJECT, World, gateway_pod

CHAT = ServiceId("shop/chat")
AWAY = Unknown(UnknownReason.TIMEOUT, "no full answer within 3 s")
READY = [gateway_pod("gw-0"), gateway_pod("gw-1")]
PAGE = (
    "gpu_autoscaler_gateway_start_time_seconds 1796000000\n"
    'gpu_autoscaler_gateway_requests_total{service="shop/chat"} 3\n'
)


def behind(world: World, **look: Any) -> list[Finding]:
    """What is found of the gateway, the service being behind one."""
    world.resource["spec"]["gateway"] = {}
    if look:
        given: dict[str, Any] = {"namespace": "ops", "labels": GATEWAY_LABELS, "pods": READY, "routes": {}, **look}
        world.gateways[CHAT] = GatewayLook(**given)
    return [each for each in found(world) if each.check is CheckId.GATEWAY]


@pytest.mark.parametrize(
    ("look", "severity", "words"),
    [
        pytest.param({}, Severity.WARNING, "own namespace is not known", id="where the controller is is not known"),
        pytest.param({"pods": []}, Severity.ERROR, "no pod in namespace ops", id="none"),
        pytest.param({"pods": RefusedError("pods is forbidden")}, Severity.WARNING, "forbidden", id="no right"),
        pytest.param(
            {"pods": [gateway_pod("gw-0", ready=False)]}, Severity.ERROR, "none of the 1 pods", id="none ready"
        ),
        pytest.param(
            {"routes": {"gw-0": frozenset({CHAT}), "gw-1": frozenset({"shop/other"})}},
            Severity.ERROR,
            "1 of 2 gateways (gw-1) send it no requests",
            id="one does not know it",
        ),
        pytest.param(
            {"routes": {"gw-0": frozenset({CHAT}), "gw-1": AWAY}}, Severity.WARNING, "gw-1", id="one is not reached"
        ),
        pytest.param(
            {"routes": {"gw-0": frozenset({CHAT}), "gw-1": frozenset({CHAT})}},
            Severity.OK,
            "2 of its gateways are ready",
            id="all is well",
        ),
        pytest.param({"routes": {}}, Severity.OK, "not told by their kind's page", id="another's gateway"),
    ],
)
def test_a_gateway_is_told_of(look: dict[str, Any], severity: Severity, words: str) -> None:
    (finding,) = behind(World(), **look)
    assert (finding.severity, finding.subject) == (severity, SUBJECT)
    assert words in finding.message
    assert bool(finding.fix) == (severity is not Severity.OK)


def test_without_the_key_nothing_is_asked() -> None:
    (finding,) = (each for each in found(World()) if each.check is CheckId.GATEWAY)
    assert finding.severity is Severity.OK


def resource(**gateway: Any) -> AutoscalerResource:
    world = World()
    world.resource["spec"]["gateway"] = gateway
    wanted = parse_resource(world.resource)
    assert isinstance(wanted, AutoscalerResource)
    return wanted


def test_pages_of_ready_gateways_tell_the_services_that_they_know(api: KubernetesApi, server: ScriptedServer) -> None:
    pods = [gateway_pod("gw-0"), gateway_pod("gw-1", ready=False), gateway_pod("gw-2")]
    server.answers(*(partial(Exchange.whole, code=200, body=body) for body in (PAGE.encode(), b"up 1\n")))
    routes = fetch_routes(api, resource(), pods, through_api_server=True)
    asked = [each.path for each in server.requests]
    assert asked == [f"/api/v1/namespaces/ops/pods/{pod}:8081/proxy/metrics" for pod in ("gw-0", "gw-2")]
    assert routes["gw-0"] == frozenset({CHAT})
    wrong = routes["gw-2"]
    assert isinstance(wrong, Unknown)
    assert wrong.reason is UnknownReason.MISSING_SERIES
    assert routes.keys() == {"gw-0", "gw-2"}
