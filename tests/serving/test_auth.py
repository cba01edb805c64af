"""Who may read, over the wire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.cookies import SimpleCookie
from typing import Any

import pytest

from adapters.serving.auth import ApiSettings, Gatekeeper
from autoscaler.domain.service import Service

TOKEN = "0123456789abcdef-secret"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param({"host": "0.0.0.0"}, ("api.host", "0.0.0.0", "api.token", "api.open"), id="open by accident"),
        pytest.param({"host": "gpu-box"}, ("api.host", "gpu-box", "api.token"), id="a name may be reachable"),
        pytest.param({"host": ""}, ("api.host", "address"), id="no host"),
        pytest.param({"host": "*"}, ("api.host", "'*'"), id="a star"),
        pytest.param({"port": 70000}, ("api.port", "[0, 65535]", "70000"), id="port too large"),
        pytest.param({"port": -1}, ("api.port", "[0, 65535]", "-1"), id="port negative"),
        pytest.param({"token": "short"}, ("api.token", "16", "5 characters"), id="token too short"),
        pytest.param({"token": "with spaces in the middle"}, ("api.token", "spaces"), id="token with spaces"),
        pytest.param({"token": "ümlaut-" * 4}, ("api.token", "ASCII"), id="token beyond ASCII"),
        pytest.param({"token": TOKEN, "open": True}, ("api.token", "api.open"), id="both token and open"),
    ],
)
def test_wrong_settings_name_the_key_and_what_to_do(given: dict[str, Any], told: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="api") as error:
        ApiSettings(**given)
    assert [word for word in told if word not in str(error.value)] == []
    assert str(given.get("token", "no token")) not in str(error.value)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="loopback by default"),
        pytest.param({"host": "localhost"}, id="localhost"),
        pytest.param({"host": "::1"}, id="IPv6 loopback"),
        pytest.param({"host": "0.0.0.0", "token": TOKEN}, id="everywhere with a token"),
        pytest.param({"host": "0.0.0.0", "open": True}, id="everywhere, said to be open"),
    ],
)
def test_settings_that_stand(given: dict[str, Any]) -> None:
    assert ApiSettings(**given).port == 8090


def test_the_token_is_never_printed() -> None:
    assert TOKEN not in repr(ApiSettings(token=TOKEN))


@pytest.mark.parametrize(
    ("headers", "known"),
    [
        pytest.param(["localhost:8090"], True, id="localhost"),
        pytest.param(["LOCALHOST"], True, id="upper case"),
        pytest.param(["localhost."], True, id="trailing dot"),
        pytest.param(["127.0.0.1:8090"], True, id="IPv4"),
        pytest.param(["127.3.2.1"], True, id="all of 127/8"),
        pytest.param(["[::1]:8090"], True, id="IPv6"),
        pytest.param(["gpu.example:8090"], True, id="a name of ours"),
        pytest.param(["evil.example"], False, id="another name"),
        pytest.param(["127.0.0.1.evil.example"], False, id="looks like an address"),
        pytest.param(["localhost.evil.example:8090"], False, id="looks like localhost"),
        pytest.param(["192.168.1.4:8090"], False, id="another address"),
        pytest.param(["0.0.0.0:8090"], False, id="the unspecified address"),
        pytest.param([""], False, id="empty"),
        pytest.param([], False, id="none"),
        pytest.param(["localhost", "evil.example"], False, id="two"),
    ],
)
def test_hosts_on_loopback(headers: list[str], known: bool) -> None:  # noqa: FBT001
    gatekeeper = Gatekeeper(ApiSettings(allowed_hosts=("gpu.example",)))
    assert gatekeeper.knows_host(headers) is known


@pytest.mark.parametrize(
    ("settings", "known"),
    [
        pytest.param(ApiSettings(host="0.0.0.0", open=True), True, id="open: any name"),
        pytest.param(ApiSettings(host="0.0.0.0", token=TOKEN), True, id="token: any name"),
        pytest.param(ApiSettings(host="0.0.0.0", open=True, allowed_hosts=("a.example",)), False, id="names given"),
    ],
)
def test_hosts_elsewhere(settings: ApiSettings, known: bool) -> None:  # noqa: FBT001
    assert Gatekeeper(settings).knows_host(["other.example"]) is known


@pytest.fixture(scope="module")
def guarded(serve: Callable[..., Any], service: Callable[..., Service]) -> Iterator[Any]:
    with serve(services=(service(),), settings=ApiSettings(token=TOKEN)) as running:
        yield running


def cookie_of(reply: Any) -> str:
    return str(reply.headers["set-cookie"]).partition(";")[0]


PROTECTED = (
    "/",
    "/static/dashboard.js",
    "/static/plotly.min.js",
    "/metrics",
    "/api/v1/services",
    "/api/v1/services/chat-8b",
    "/api/v1/services/chat-8b/timeline",
    "/api/v1/services/chat-8b/decisions",
    "/api/v1/events",
    "/openapi.json",
    "/nowhere",
)


@pytest.mark.parametrize("path", PROTECTED)
def test_everything_is_protected(guarded: Any, path: str) -> None:
    reply = guarded.ask(path)
    assert reply.status == 401
    assert reply.headers["www-authenticate"] == "Bearer"
    assert reply.json()["error"]["kind"] == "Unauthorized"


@pytest.mark.parametrize(("path", "status"), [("/healthz", 200), ("/readyz", 503)])
def test_probes_are_not(guarded: Any, path: str, status: int) -> None:
    assert guarded.ask(path).status == status


@pytest.mark.parametrize(
    ("header", "status"),
    [
        pytest.param(f"Bearer {TOKEN}", 200, id="right"),
        pytest.param(f"bearer {TOKEN}", 200, id="scheme in lower case"),
        pytest.param(f"Bearer {TOKEN}x", 401, id="longer"),
        pytest.param(f"Bearer {TOKEN[:-1]}", 401, id="shorter"),
        pytest.param("Bearer ", 401, id="empty"),
        pytest.param(TOKEN, 401, id="no scheme"),
        pytest.param(f"Basic {TOKEN}", 401, id="another scheme"),
    ],
)
def test_the_bearer_token(guarded: Any, header: str, status: int) -> None:
    assert guarded.ask("/api/v1/services", {"authorization": header}).status == status


def test_a_first_visit_with_the_token_leaves_a_cookie_and_a_clean_address(guarded: Any) -> None:
    first = guarded.ask(f"/?token={TOKEN}&view=a%20b")
    assert (first.status, first.headers["location"]) == (303, "/?view=a+b")
    morsel = next(iter(SimpleCookie(first.headers["set-cookie"]).values()))
    assert (morsel["httponly"], morsel["samesite"].lower(), morsel["path"]) == (True, "strict", "/")
    assert TOKEN not in first.headers["set-cookie"]
    assert guarded.ask("/", {"cookie": cookie_of(first)}).status == 200
    assert guarded.ask("/api/v1/services", {"cookie": cookie_of(first)}).status == 200


def test_a_person_can_sign_in(guarded: Any) -> None:
    asked = guarded.ask("/", {"accept": "text/html"})
    assert (asked.status, asked.headers["content-type"]) == (401, "text/html; charset=utf-8")
    signed = guarded.ask("/sign-in", method="POST", body=f"token={TOKEN}")
    assert (signed.status, signed.headers["location"]) == (303, "/")
    assert guarded.ask("/", {"cookie": cookie_of(signed)}).status == 200


@pytest.mark.parametrize(
    ("path", "method", "body", "status"),
    [
        pytest.param("/?token=wrong-token-wrong-token", "GET", None, 401, id="wrong token in the address"),
        pytest.param(f"/api/v1/services?token={TOKEN}", "GET", None, 401, id="a token is for the page alone"),
        pytest.param("/sign-in", "POST", "token=wrong", 401, id="wrong token signed in"),
        pytest.param("/sign-in", "POST", "", 401, id="nothing signed in"),
        pytest.param("/sign-in", "POST", "token=" + "x" * 5000, 413, id="too much signed in"),
    ],
)
def test_no_cookie_without_the_token(*, guarded: Any, path: str, method: str, body: str | None, status: int) -> None:
    reply = guarded.ask(path, {"accept": "text/html"}, method=method, body=body)
    assert reply.status == status
    assert reply.headers["set-cookie"] is None


def test_the_cookie_of_another_token_opens_nothing(guarded: Any) -> None:
    name = cookie_of(guarded.ask(f"/?token={TOKEN}")).partition("=")[0]
    assert guarded.ask("/api/v1/services", {"cookie": f"{name}={'0' * 64}"}).status == 401
    assert guarded.ask("/api/v1/services", {"cookie": f"{name}={TOKEN}"}).status == 401


@pytest.mark.parametrize("path", ["/api/v1/services", "/", "/metrics"])
def test_another_sites_name_is_refused_on_loopback(served: Any, path: str) -> None:
    reply = served.ask(path, {"host": "evil.example:8090"})
    assert (reply.status, reply.json()["error"]["kind"]) == (403, "UnknownHost")


@pytest.mark.parametrize("path", ["/", "/api/v1/services", "/metrics", "/healthz", "/nowhere"])
def test_browsers_are_kept_strict(served: Any, path: str) -> None:
    headers = served.ask(path).headers
    policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["access-control-allow-origin"] is None
