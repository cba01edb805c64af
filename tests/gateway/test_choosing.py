"""Which service a request is for."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.local.gateway_choosing import Unroutable, choose, model_in, model_list
from adapters.local.template import RoutePolicy
from autoscaler.domain.service import ServiceId, Slo


def policy(service: str, *models: str) -> RoutePolicy:
    return RoutePolicy(service=ServiceId(service), models=models, slo=Slo(ttft_s=1.0))


ONE = (policy("chat", "llama"),)
SEVERAL = (policy("chat", "llama", "llama-long"), policy("embed", "bge", "llama"), policy("detect"))


@pytest.mark.parametrize(
    ("policies", "named", "body", "service"),
    [
        pytest.param(ONE, None, b"", "chat", id="the only one"),
        pytest.param(ONE, None, b'{"model": "other"}', "chat", id="the only one, whatever the model"),
        pytest.param(SEVERAL, None, b'{"model": "bge"}', "embed", id="by model"),
        pytest.param(SEVERAL, None, b'{"messages": [{"model": "x"}], "model": "llama-long"}', "chat", id="outermost"),
        pytest.param(SEVERAL, None, b'{"model": "llama"}', "chat", id="two list it: the first"),
        pytest.param(SEVERAL, None, b'{"model": "detect"}', "detect", id="a service without models: its name"),
        pytest.param(SEVERAL, None, '{"model": "bge"}'.encode("utf-16"), "embed", id="UTF-16"),
        pytest.param(SEVERAL, "detect", b'{"model": "bge"}', "detect", id="the header wins"),
        pytest.param(SEVERAL, "detect", b"\x00\x01", "detect", id="the header needs no JSON"),
    ],
)
def test_chosen(policies: tuple[RoutePolicy, ...], named: str | None, body: bytes, service: str) -> None:
    chosen = choose(policies, named=named, body=body)
    assert isinstance(chosen, RoutePolicy)
    assert chosen.service == service


@pytest.mark.parametrize(
    ("named", "body", "code", "words"),
    [
        pytest.param(None, b'{"model": "gpt"}', "model_not_found", "`gpt` does not exist", id="unknown model"),
        pytest.param(None, b"", "model_not_named", "llama, llama-long, bge, llama, detect", id="empty body"),
        pytest.param(None, b'{"model": "bge"', "model_not_named", "Name the model", id="truncated"),
        pytest.param(None, b'{"model": ["bge"]}', "model_not_named", "Name the model", id="no string"),
        pytest.param(None, b'["model", "bge"]', "model_not_named", "Name the model", id="no object"),
        pytest.param(None, b"[" * 100_000, "model_not_named", "Name the model", id="nested too deep"),
        pytest.param(None, b'{"a": ' + b"9" * 5000 + b"}", "model_not_named", "Name the model", id="huge number"),
        pytest.param("gpt", b'{"model": "bge"}', "service_not_found", "chat, embed, detect", id="unknown service"),
        pytest.param("", b'{"model": "bge"}', "service_not_found", "chat, embed, detect", id="empty name"),
    ],
)
def test_not_chosen(named: str | None, body: bytes, code: str, words: str) -> None:
    chosen = choose(SEVERAL, named=named, body=body)
    assert isinstance(chosen, Unroutable)
    assert chosen.code == code
    assert words in chosen.message


@given(st.binary())
def test_any_bytes_are_looked_at_without_an_error(body: bytes) -> None:
    choose(SEVERAL, named=None, body=body)


@given(st.dictionaries(st.text(), st.text()), st.text())
def test_the_model_of_any_object_is_found(content: dict[str, str], model: str) -> None:
    assert model_in(json.dumps({**content, "model": model}).encode()) == model


def test_models_are_listed_in_order_with_their_service() -> None:
    listed = model_list(SEVERAL, started_s=1700000000.7)
    assert listed["object"] == "list"
    assert listed["data"] == [
        {"id": model, "object": "model", "created": 1700000000, "owned_by": service}
        for model, service in [
            ("llama", "chat"),
            ("llama-long", "chat"),
            ("bge", "embed"),
            ("llama", "embed"),
            ("detect", "detect"),
        ]
    ]
