"""Which services of a cluster a gateway serves, and by which model names."""

from __future__ import annotations

from typing import Any

from adapters.local.gateway_choosing import choose
from adapters.local.template import RoutePolicy
from autoscaler.config.resource_reading import parse_resource
from autoscaler.domain.resource import AutoscalerResource
from autoscaler.domain.service import Slo
from autoscaler.gateway_run import policies_of, routed


def resource(name: str, *, created: str = "2026-11-30T12:00:00Z", namespace: str = "llm", **spec: Any) -> object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    parsed = parse_resource(
        {
            "metadata": {"namespace": namespace, "name": name, "creationTimestamp": created},
            "spec": {"slo": {"ttft": "2s"}, "targetRef": target, "gateway": {}, **spec},
        }
    )
    assert isinstance(parsed, AutoscalerResource), parsed
    return parsed


def policies(*resources: object) -> tuple[tuple[RoutePolicy, ...], list[str]]:
    return policies_of(routed([each for each in resources if isinstance(each, AutoscalerResource)]))


def test_a_service_is_asked_for_by_its_resources_name_unless_it_lists_models() -> None:
    (chat, other), clashes = policies(
        resource("chat"),
        resource("other", models=["a", "b"], requests={"maxWaiting": 3, "maxWait": "1m", "timeout": "2m"}),
    )
    assert chat == RoutePolicy(service=chat.service, models=("chat",), slo=Slo(ttft_s=2.0))
    assert (chat.service, other.service, other.models) == ("llm/chat", "llm/other", ("a", "b"))
    assert (other.max_waiting, other.max_wait_s, other.request_timeout_s) == (3, 60.0, 120.0)
    assert clashes == []


def test_one_without_a_gateway_is_none_of_its_business() -> None:
    found, _ = policies(resource("chat"), resource("other", gateway=None))
    assert [each.service for each in found] == ["llm/chat"]


def test_of_two_with_one_model_name_the_older_has_it_and_that_is_said() -> None:
    younger = resource("a", created="2026-11-30T13:00:00Z", models=["llama", "a"])
    older = resource("z", models=["llama"])
    for given in ((younger, older), (older, younger)):
        found, clashes = policies(*given)
        (clash,) = clashes
        assert clash.startswith("llm/a: llm/z is older and serves the model llama too")
        chosen = {model: choose(found, named=None, body=b'{"model": "%s"}' % model) for model in (b"llama", b"a")}
        assert [getattr(each, "service", None) for each in chosen.values()] == ["llm/z", "llm/a"]


def test_one_that_has_lost_its_only_name_is_reached_by_the_header_alone() -> None:
    found, _ = policies(resource("chat"), resource("chat", namespace="b", created="2026-11-30T13:00:00Z"))
    assert getattr(choose(found, named="b/chat", body=b""), "service", None) == "b/chat"
    assert getattr(choose(found, named=None, body=b'{"model": "chat"}'), "service", None) == "llm/chat"
