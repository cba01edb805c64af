"""Who is let in, and above all who is not: each over real TLS."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from autoscaler.domain.caller import User
from tests.external_metrics.authorities import SERVER, Pair, authority, issue
from tests.external_metrics.scene import API, AUDIENCE, HPA, Headers, Scene, ask_on, bearer, named

PATH = f"{API}/namespaces/prod/desired_replicas"
REFUSED_BY_TLS = "refused by TLS"
Pick = Callable[[Scene], Pair | None]


@dataclass(frozen=True)
class Case:
    """``pair``: the certificate shown; ``down``: what the API server does not answer; ``expected``: status."""

    expected: int | str
    pair: Pick = lambda _: None
    headers: Headers = ()
    down: str = ""
    says: str = ""


def _user(name: str, *groups: str, **wrong: float) -> Pick:
    return lambda scene: issue(scene.ca, name, groups=groups, **wrong)  # type: ignore[arg-type]


def _proxy(name: str = "front-proxy-client", **wrong: float) -> Pick:
    return lambda scene: issue(scene.proxy_ca, name, **wrong)  # type: ignore[arg-type]


AS_HPA = named(HPA)
AS_MASTER = named("admin", "system:masters")

CASES = {
    "proxy names the HPA": Case(200, _proxy(), AS_HPA),
    "proxy names a master": Case(200, _proxy(), AS_MASTER),
    "proxy names a user without rights": Case(403, _proxy(), named("eve"), says="eve may not list desired_replicas"),
    "proxy names the anonymous user": Case(403, _proxy(), named("system:anonymous", "system:unauthenticated")),
    "proxy names nobody": Case(401, _proxy()),
    "proxy names an empty user": Case(401, _proxy(), named("")),
    "proxy names two users": Case(401, _proxy(), [*named(HPA), *named("admin")]),
    "proxy names bytes that are no text": Case(401, _proxy(), [("X-Remote-User", "\xff\xfe")]),
    "proxy names groups but no user": Case(401, _proxy(), [("X-Remote-Group", "system:masters")]),
    "proxy and authorizer down": Case(500, _proxy(), AS_HPA, down="access", says="nobody is let in"),
    "proxy of another common name": Case(401, _proxy("other"), AS_MASTER),
    "proxy without a common name": Case(401, _proxy(""), AS_MASTER),
    "proxy's certificate has run out": Case(REFUSED_BY_TLS, _proxy(from_day=-9, until_day=-1), AS_MASTER),
    "proxy's certificate is not valid yet": Case(REFUSED_BY_TLS, _proxy(from_day=1, until_day=9), AS_MASTER),
    "proxy's certificate is a server's": Case(
        REFUSED_BY_TLS, lambda scene: issue(scene.proxy_ca, "front-proxy-client", use=SERVER), AS_MASTER
    ),
    "proxy's certificate lists no uses": Case(
        200, lambda scene: issue(scene.proxy_ca, "front-proxy-client", use=None), AS_HPA
    ),
    "proxy's certificate is a CA's": Case(
        401, lambda scene: issue(scene.proxy_ca, "front-proxy-client", ca=True), AS_MASTER
    ),
    "proxy's name from a foreign CA": Case(
        REFUSED_BY_TLS, lambda scene: issue(scene.foreign_ca, "front-proxy-client"), AS_MASTER
    ),
    "proxy's name from a CA of the same name": Case(
        REFUSED_BY_TLS, lambda _: issue(authority("front-proxy-ca"), "front-proxy-client"), AS_MASTER
    ),
    "proxy's name signed by itself": Case(REFUSED_BY_TLS, lambda _: issue(None, "front-proxy-client"), AS_MASTER),
    "proxy's name from the clients' CA, as a master": Case(403, _user("front-proxy-client"), AS_MASTER),
    "no certificate": Case(401, says="who asks is not proven"),
    "no certificate, X-Remote-User": Case(401, headers=AS_HPA),
    "no certificate, a master's X-Remote-Group": Case(401, headers=AS_MASTER),
    "user with rights": Case(200, _user("monitor")),
    "user without rights": Case(403, _user("eve"), says="bind a role"),
    "user without rights, a master's headers": Case(403, _user("eve"), AS_MASTER),
    "user without rights, the HPA's headers": Case(403, _user("eve"), AS_HPA),
    "user of group system:masters": Case(200, _user("root", "system:masters")),
    "user of a group that sounds alike": Case(403, _user("eve", "System:Masters")),
    "user named like the group": Case(403, _user("system:masters")),
    "user without a common name": Case(401, _user("", "system:masters")),
    "user's certificate has run out": Case(REFUSED_BY_TLS, _user("monitor", from_day=-9, until_day=-1)),
    "user's certificate is not valid yet": Case(REFUSED_BY_TLS, _user("monitor", from_day=1, until_day=9)),
    "user's certificate is a server's": Case(REFUSED_BY_TLS, lambda scene: issue(scene.ca, "monitor", use=SERVER)),
    "user from a foreign CA": Case(REFUSED_BY_TLS, lambda scene: issue(scene.foreign_ca, "monitor")),
    "user signed by a user": Case(REFUSED_BY_TLS, lambda scene: issue(issue(scene.ca, "monitor"), "admin")),
    "user and authorizer down": Case(500, _user("monitor"), down="access"),
    "master and authorizer down": Case(200, _user("root", "system:masters"), down="access"),
    "user from the proxy's CA": Case(401, lambda scene: issue(scene.proxy_ca, "monitor")),
    "token": Case(200, headers=bearer("good")),
    "token, scheme in capitals": Case(200, headers=[("Authorization", "BEARER good")]),
    "token of a user without rights": Case(403, headers=bearer("eve")),
    "token of a user without rights, a master's headers": Case(403, headers=[*bearer("eve"), *AS_MASTER]),
    "token nobody knows": Case(401, headers=bearer("invented"), says="no valid token"),
    "token that has run out": Case(401, headers=bearer("expired")),
    "token for another audience": Case(401, headers=bearer("vault")),
    "token is empty": Case(401, headers=[("Authorization", "Bearer ")]),
    "token of 20,000 letters": Case(401, headers=bearer("a" * 20_000)),
    "password instead of a token": Case(401, headers=[("Authorization", "Basic Z29vZDpnb29k")]),
    "token and token review down": Case(500, headers=bearer("good"), down="token", says="can't be checked"),
    "token and authorizer down": Case(500, headers=bearer("good"), down="access"),
    "token beside a certificate that says nothing": Case(200, _proxy("other"), bearer("good")),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_who_is_let_in(scene: Scene, case: Case) -> None:
    scene.cluster.tokens = {
        ("good", AUDIENCE): User(name="monitor"),
        ("eve", AUDIENCE): User(name="eve"),
        ("vault", "vault"): User(name="monitor"),
    }
    scene.cluster.down = {case.down}
    if case.expected == REFUSED_BY_TLS:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            scene.ask(PATH, pair=case.pair(scene), headers=case.headers)
        assert scene.cluster.asked == []
        return
    reply = scene.ask(PATH, pair=case.pair(scene), headers=case.headers)
    assert (reply.status, reply.headers["content-type"]) == (case.expected, "application/json")
    if case.expected == 200:
        assert reply.document["items"][0]["value"] == "3"
    else:
        assert reply.document["kind"] == "Status"
        assert reply.document["code"] == case.expected
        assert case.says in reply.message


def test_any_common_name_is_the_proxys_where_none_is_listed(scene: Scene) -> None:
    other = issue(scene.proxy_ca, "whatever")
    assert scene.ask(PATH, pair=other, headers=AS_HPA).status == 401
    scene.server.set_trust(scene.trust(names=()))
    assert scene.ask(PATH, pair=other, headers=AS_HPA).status == 200


def test_names_of_the_headers_are_those_of_the_cluster(scene: Scene) -> None:
    trust = scene.trust()
    scene.server.set_trust(
        type(trust)(
            client_ca_pem=trust.client_ca_pem,
            front_proxy_ca_pem=trust.front_proxy_ca_pem,
            front_proxy_names=trust.front_proxy_names,
            user_headers=("X-Who", "X-Who-Else"),
            group_headers=("X-Of",),
            uid_headers=("X-Id",),
            extra_prefixes=("X-More-",),
        )
    )
    assert scene.ask(PATH, pair=scene.proxy, headers=AS_MASTER).status == 401
    headers = [("x-who-else", HPA), ("X-Of", "a"), ("X-Of", "b"), ("X-Id", "7"), ("X-More-Example.com%2FScope", "s")]
    assert scene.ask(PATH, pair=scene.proxy, headers=headers).status == 200
    _, question = scene.cluster.asked[-1]
    assert isinstance(question, tuple)
    assert question[0] == User(
        name=HPA, groups=("a", "b", "system:authenticated"), uid="7", extra=(("example.com/scope", ("s",)),)
    )


def test_a_ca_that_was_taken_away_is_refused_at_once_on_open_connections_too(scene: Scene) -> None:
    with scene.connected(scene.proxy) as connection:
        assert ask_on(connection, PATH, headers=AS_HPA).status == 200
        rotated = authority("front-proxy-ca")
        scene.server.set_trust(scene.trust(proxy_ca=rotated))
        assert ask_on(connection, PATH, headers=AS_HPA).status == 401
    with pytest.raises((ssl.SSLError, ConnectionError)):
        scene.ask(PATH, pair=scene.proxy, headers=AS_HPA)
    assert scene.ask(PATH, pair=issue(rotated, "front-proxy-client"), headers=AS_HPA).status == 200


def test_both_cas_count_while_one_replaces_the_other(scene: Scene) -> None:
    rotated = authority("front-proxy-ca")
    trust = scene.trust()
    both = type(trust)(front_proxy_ca_pem=scene.proxy_ca.pem + rotated.pem, front_proxy_names=("front-proxy-client",))
    scene.server.set_trust(both)
    for signer in (scene.proxy_ca, rotated):
        assert scene.ask(PATH, pair=issue(signer, "front-proxy-client"), headers=AS_HPA).status == 200


def test_a_certificate_that_runs_out_ends_an_open_connections_rights(scene: Scene) -> None:
    with scene.connected(issue(scene.proxy_ca, "front-proxy-client", until_day=1)) as connection:
        assert ask_on(connection, PATH, headers=AS_HPA).status == 200
        scene.now_s += 2 * 86_400
        assert ask_on(connection, PATH, headers=AS_HPA).status == 401


def test_a_user_of_the_clients_ca_is_no_proxy_where_both_cas_are_one(scene: Scene) -> None:
    scene.server.set_trust(scene.trust(proxy_ca=scene.ca))
    assert scene.ask(PATH, pair=issue(scene.ca, "front-proxy-client"), headers=AS_HPA).status == 200
    assert scene.ask(PATH, pair=issue(scene.ca, "eve"), headers=AS_MASTER).status == 403


def test_where_one_ca_makes_everybody_a_proxy_a_user_is_still_one(scene: Scene) -> None:
    scene.server.set_trust(scene.trust(proxy_ca=scene.ca, names=()))
    assert scene.ask(PATH, pair=issue(scene.ca, "monitor")).status == 200
    assert scene.ask(PATH, pair=issue(scene.ca, "eve")).status == 403


def test_a_certificate_in_the_place_of_a_ca_signs_nothing(scene: Scene) -> None:
    no_ca = authority("no-ca", signs=False)
    scene.server.set_trust(scene.trust(proxy_ca=no_ca))
    with pytest.raises((ssl.SSLError, ConnectionError)):
        scene.ask(PATH, pair=issue(no_ca, "front-proxy-client"), headers=AS_MASTER)
