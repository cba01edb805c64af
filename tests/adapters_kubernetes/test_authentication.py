"""What the cluster says of callers: its trust in certificates, tokens and rights, as values."""

from __future__ import annotations

import threading

import pytest

from adapters.kubernetes.authentication import ApiReviews, TrustWatch, caller_trust_of
from adapters.kubernetes.connection import KubernetesApi
from adapters.kubernetes.raw_json import JsonObject
from autoscaler.domain.caller import Access, CallerTrust, TokenRefused, User, Verdict
from autoscaler.ports import InvalidAnswerError, PortError, RefusedError, UnavailableError
from tests.adapters_kubernetes.scripted_server import ScriptedServer, answered, event, page, told, watch_held

DATA = {
    "client-ca-file": "CLIENT",
    "requestheader-client-ca-file": "PROXY",
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-uid-headers": '["X-Remote-Uid"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}
TRUST = CallerTrust(client_ca_pem="CLIENT", front_proxy_ca_pem="PROXY", front_proxy_names=("front-proxy-client",))
ACCESS = Access(
    verb="list", group="external.metrics.k8s.io", version="v1beta1", resource="desired_replicas", namespace="prod"
)
ANN: JsonObject = {
    "username": "ann",
    "groups": ["a", "b"],
    "uid": "7",
    "extra": {"scopes": ["read", "list"]},
}


def config_map(**changes: str) -> JsonObject:
    metadata = {"namespace": "kube-system", "name": "extension-apiserver-authentication", "resourceVersion": "1"}
    return {"metadata": metadata, "data": {**DATA, **changes}}


def test_the_config_map_as_a_value() -> None:
    assert caller_trust_of(config_map()) == TRUST


def test_what_is_missing_trusts_nobody() -> None:
    assert caller_trust_of({"metadata": {"name": "x"}}) == CallerTrust(
        user_headers=(), uid_headers=(), group_headers=(), extra_prefixes=()
    )


@pytest.mark.parametrize("wrong", ["", "front-proxy-client", '{"a": 1}', '"a"', "[1]", "[[]]", "null"])
def test_lists_that_can_not_be_read_are_named(wrong: str) -> None:
    with pytest.raises(InvalidAnswerError, match="requestheader-allowed-names"):
        caller_trust_of(config_map(**{"requestheader-allowed-names": wrong}))


def test_trust_is_handed_over_once_and_after_each_change(api: KubernetesApi, server: ScriptedServer) -> None:
    used: list[CallerTrust] = []
    came = threading.Semaphore(0)

    def use(trust: CallerTrust) -> None:
        came.release()
        if trust.client_ca_pem == "BROKEN":
            raise RefusedError("client-ca-file: no PEM")
        used.append(trust)

    server.answers(page([config_map()], "1"))
    changes = []
    for version, text in (("2", "BROKEN"), ("3", "NEW")):
        changed = {**config_map(**{"client-ca-file": text})}
        changed["metadata"] = {**changed["metadata"], "resourceVersion": version}  # type: ignore[dict-item]
        changes.append(event("MODIFIED", changed))
    server.answers(watch_held(*changes))
    watch = TrustWatch(api, use, now_s=lambda: 0.0)
    watch.start()
    try:
        for _ in range(3):
            assert came.acquire(timeout=30)
    finally:
        watch.close()
    assert server.requests[0].path == "/api/v1/namespaces/kube-system/configmaps"
    assert server.requests[0].query["fieldSelector"] == "metadata.name=extension-apiserver-authentication"
    assert [trust.client_ca_pem for trust in used] == ["CLIENT", "NEW"]


def test_a_tokens_owner(api: KubernetesApi, server: ScriptedServer) -> None:
    server.answers(answered({"status": {"authenticated": True, "user": ANN}}, 201))
    expected = User(name="ann", groups=("a", "b"), uid="7", extra=(("scopes", ("read", "list")),))
    assert ApiReviews(api).token_review("secret", ()) == expected
    (request,) = server.requests
    assert (request.verb, request.path) == ("POST", "/apis/authentication.k8s.io/v1/tokenreviews")
    assert request.json()["spec"] == {"token": "secret"}


@pytest.mark.parametrize(
    ("status", "says"),
    [
        pytest.param({}, "no valid token", id="says nothing"),
        pytest.param({"authenticated": False, "error": "token has expired"}, "has expired", id="expired"),
        pytest.param({"authenticated": False, "user": ANN}, "no valid token", id="a user, but not proven"),
        pytest.param({"authenticated": True, "user": ANN, "audiences": ["vault"]}, "vault", id="meant for another"),
        pytest.param({"authenticated": True, "user": ANN}, "no audience", id="meaning not checked"),
    ],
)
def test_a_token_that_names_nobody(api: KubernetesApi, server: ScriptedServer, status: JsonObject, says: str) -> None:
    server.answers(answered({"status": status}, 201))
    refused = ApiReviews(api).token_review("secret", ("ours", "theirs"))
    assert isinstance(refused, TokenRefused)
    assert says in refused.reason
    assert server.requests[0].json()["spec"] == {"token": "secret", "audiences": ["ours", "theirs"]}


def test_a_token_for_one_of_our_audiences(api: KubernetesApi, server: ScriptedServer) -> None:
    status = {"authenticated": True, "user": {"username": "ann"}, "audiences": ["theirs"]}
    server.answers(answered({"status": status}, 201))
    assert ApiReviews(api).token_review("secret", ("ours", "theirs")) == User(name="ann")


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        pytest.param({"allowed": True, "reason": "bound"}, Verdict(allowed=True, reason="bound"), id="yes"),
        pytest.param({"allowed": False}, Verdict(allowed=False), id="no"),
        pytest.param({}, Verdict(allowed=False), id="says nothing"),
        pytest.param({"allowed": True, "denied": True}, Verdict(allowed=False), id="denied all the same"),
        pytest.param(
            {"allowed": False, "evaluationError": "no such role"},
            Verdict(allowed=False, reason="no such role"),
            id="an error",
        ),
    ],
)
def test_rights(api: KubernetesApi, server: ScriptedServer, status: JsonObject, verdict: Verdict) -> None:
    server.answers(answered({"status": status}, 201))
    user = User(name="ann", groups=("a",), uid="7", extra=(("scopes", ("read",)),))
    assert ApiReviews(api).subject_access_review(user, ACCESS) == verdict
    (request,) = server.requests
    assert (request.verb, request.path) == ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews")
    assert request.json()["spec"] == {
        "user": "ann",
        "groups": ["a"],
        "uid": "7",
        "extra": {"scopes": ["read"]},
        "resourceAttributes": {
            "verb": "list",
            "group": "external.metrics.k8s.io",
            "version": "v1beta1",
            "resource": "desired_replicas",
            "namespace": "prod",
        },
    }


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        pytest.param(told(403, "may not create"), RefusedError, id="forbidden"),
        pytest.param(told(500, "etcd"), UnavailableError, id="broken"),
        pytest.param(answered({"status": "Success"}), InvalidAnswerError, id="of another shape"),
    ],
)
def test_no_answer_is_an_error_and_no_verdict(
    api: KubernetesApi, server: ScriptedServer, answer: object, kind: type[PortError]
) -> None:
    server.answers(answer, answer)  # type: ignore[arg-type]
    reviews = ApiReviews(api)
    with pytest.raises(kind):
        reviews.token_review("secret", ())
    with pytest.raises(kind):
        reviews.subject_access_review(User(name="ann"), ACCESS)
