"""Header fields: those of one connection stay behind, all others pass in their order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from adapters.local.gateway_headers import asks_for_upgrade, for_client, for_replica

END_TO_END = ["Accept", "Authorization", "Content-Type", "Cookie", "Set-Cookie", "X-Request-Id"]
HOP_BY_HOP = ["Keep-Alive", "Proxy-Authorization", "TE", "Trailer", "Transfer-Encoding", "upgrade", "X-Named"]

fields = st.lists(st.tuples(st.sampled_from(END_TO_END + HOP_BY_HOP), st.text("abc", max_size=3)))


@given(fields)
def test_only_fields_of_the_connection_are_dropped(sent: list[tuple[str, str]]) -> None:
    headers = CIMultiDictProxy(CIMultiDict([*sent, ("Connection", "close, x-named")]))
    passed = [(name, value) for name, value in sent if name in END_TO_END]
    assert list(for_client(headers).items()) == passed
    to_replica = for_replica(headers, client=None, scheme="http")
    del to_replica["X-Forwarded-Proto"]
    assert list(to_replica.items()) == passed


@pytest.mark.parametrize(
    ("sent", "client", "forwarded"),
    [
        pytest.param(
            {"Host": "gw:8080"},
            "10.0.0.1",
            {"X-Forwarded-For": "10.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "gw:8080"},
            id="from a client",
        ),
        pytest.param(
            {"Host": "gw", "X-Forwarded-For": "1.1.1.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "site"},
            "10.0.0.1",
            {"X-Forwarded-For": "1.1.1.1, 10.0.0.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "site"},
            id="from another proxy",
        ),
        pytest.param({}, None, {"X-Forwarded-Proto": "http"}, id="nothing known"),
    ],
)
def test_forwarded_fields(sent: dict[str, str], client: str | None, forwarded: dict[str, str]) -> None:
    assert dict(for_replica(CIMultiDictProxy(CIMultiDict(sent)), client=client, scheme="http")) == forwarded


@pytest.mark.parametrize(
    ("upgrade", "asked"),
    [("websocket", True), ("WebSocket", True), ("h2c", False), ("H2C", False), (None, False)],
)
def test_only_an_offer_of_http_2_may_be_passed_over(*, upgrade: str | None, asked: bool) -> None:
    assert asks_for_upgrade({"Upgrade": upgrade} if upgrade else {}) is asked
