"""What the API server is asked: rights, its clock, and pages through its pod proxy."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from adapters.kubernetes.connection import KubernetesApi
from adapters.kubernetes.raw_json import JsonObject
from adapters.kubernetes.target_kinds import TARGET_KINDS
from autoscaler.config.resource_reading import parse_resource
from autoscaler.doctor.asking import Account, ask_rights
from autoscaler.doctor.fetching import fetch_looks
from autoscaler.doctor.rights import Right, check_rights, needed_rights
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.resource import AutoscalerResource
from autoscaler.domain.service import Engine
from autoscaler.ports import InvalidAnswerError
from tests.adapters_kubernetes.scripted_server import Answer, ScriptedServer, answered, told
from tests.doctor.world import PAGE, World

STATUS = Right(group="gpu-autoscaler.io", resource="inferenceautoscalers/status", verbs=("patch",), why="it must")


def allowed(yes: bool) -> Answer:  # noqa: FBT001
    return answered({"status": {"allowed": yes}}, 201)


def page(body: bytes, **headers: str) -> Answer:
    return lambda exchange: exchange.whole(200, body, headers)


def chat(mode: str = "Advise") -> AutoscalerResource:
    world = World()
    world.resource["spec"]["mode"] = mode
    wanted = parse_resource(world.resource)
    assert isinstance(wanted, AutoscalerResource)
    return wanted


@pytest.mark.parametrize(
    ("account", "plural", "identity"),
    [
        pytest.param(Account(), "selfsubjectaccessreviews", {}, id="whoever asks"),
        pytest.param(
            Account(user="system:serviceaccount:ops:ours"),
            "subjectaccessreviews",
            {
                "user": "system:serviceaccount:ops:ours",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:ops", "system:authenticated"],
            },
            id="a service account",
        ),
        pytest.param(
            Account(user="ann"),
            "subjectaccessreviews",
            {"user": "ann", "groups": ["system:authenticated"]},
            id="a person",
        ),
    ],
)
def test_rights_are_asked_for_the_account(
    api: KubernetesApi, server: ScriptedServer, account: Account, plural: str, identity: JsonObject
) -> None:
    server.answers(allowed(False))
    (asked,) = ask_rights(api, [STATUS], account)
    (request,) = server.requests
    assert request.path == f"/apis/authorization.k8s.io/v1/{plural}"
    resource = {"group": "gpu-autoscaler.io", "resource": "inferenceautoscalers", "subresource": "status"}
    assert request.json()["spec"] == {"resourceAttributes": {**resource, "verb": "patch"}, **identity}
    (finding,) = check_rights([asked])
    assert STATUS.rule in finding.fix
    assert "may not patch inferenceautoscalers/status in all namespaces" in finding.message


def test_a_right_that_can_not_be_asked_for_is_told_so(api: KubernetesApi, server: ScriptedServer) -> None:
    server.answers(told(403, "cannot create resource"))
    (finding,) = check_rights(ask_rights(api, [STATUS], Account(user="ann")))
    assert (finding.severity, "cannot create resource" in finding.message) == ("warning", True)


def test_only_mode_scale_needs_rights_to_write_what_it_scales() -> None:
    kind = TARGET_KINDS[0]
    view = kind.read(kind, World().deployment).views[""]

    def writing(mode: str) -> set[str]:
        resource = chat(mode)
        targets = {("shop", resource.sources[0].target): view}
        rights = needed_rights([resource], targets, None, lease_namespace="ops", external_metrics=False)
        return {each.resource for each in rights if {"update", "patch"} & set(each.verbs)}

    ours = {"inferenceautoscalers/status", "events", "leases"}
    assert writing("Advise") == ours
    assert writing("Scale") == ours | {"deployments/scale", "pods"}


def written(headers: bytes) -> Answer:
    """An empty object with these headers alone."""
    return lambda exchange: exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + headers + b"\r\n{}")


def test_the_clock_is_that_of_the_header(api: KubernetesApi, server: ScriptedServer) -> None:
    server.answers(written(b"Date: Mon, 30 Nov 2026 12:00:00 GMT\r\n"))
    assert api.server_date_s() == datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "headers", [pytest.param(b"", id="no header"), pytest.param(b"Date: yesterday\r\n", id="no date in it")]
)
def test_a_clock_that_is_not_told_is_an_error(api: KubernetesApi, server: ScriptedServer, headers: bytes) -> None:
    server.answers(written(headers))
    with pytest.raises(InvalidAnswerError, match="header Date"):
        api.server_date_s()


def looks(api: KubernetesApi) -> list[tuple[str, Engine | None, object]]:
    world, resource = World(), chat()
    kind = TARGET_KINDS[0]
    view = kind.read(kind, world.deployment).views[""]
    targets = {("shop", resource.sources[0].target): view}
    found = fetch_looks(api, [resource], targets, world.pods[:1], through_api_server=True)
    return [(each.at, each.report.engine, each.report.signals[0].value) for each in found]


def test_pages_come_through_the_pod_proxy(api: KubernetesApi, server: ScriptedServer) -> None:
    server.answers(page(PAGE))
    ((at, engine, _),) = looks(api)
    assert at == server.requests[0].path == "/api/v1/namespaces/shop/pods/chat-1:8000/proxy/metrics"
    assert engine is Engine.VLLM


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(told(403, "forbidden"), UnknownReason.HTTP_ERROR, id="refused"),
        pytest.param(told(503, "no route"), UnknownReason.UNREACHABLE, id="not reached"),
        pytest.param(page(b"<html>\n"), UnknownReason.WRONG_CONTENT, id="no page"),
    ],
)
def test_a_page_that_does_not_come_says_why(
    api: KubernetesApi, server: ScriptedServer, answer: Answer, reason: UnknownReason
) -> None:
    server.answers(answer)
    ((_, engine, value),) = looks(api)
    assert engine is None
    assert isinstance(value, Unknown)
    assert value.reason is reason
