"""Rules that join several keys, and what is only warned of."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autoscaler.config import Settings
from autoscaler.config.profiles import profile_names

Problems = Callable[[str], list[str]]
Read = Callable[[str], Settings]

SECOND = """\
  - name: embed
    slo: {e2e: 1s}
    command: serve --model org/other --port {port}
"""


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param(
            "    minReplicas: 3\n    maxReplicas: 2",
            "6:18 services[0].minReplicas: must be at most maxReplicas 2; got 3",
            id="bounds crossed",
        ),
        pytest.param(
            "    minReplicas: 30",
            "6:18 services[0].minReplicas: must be at most maxReplicas 10 (its default; give maxReplicas too); got 30",
            id="above the default",
        ),
        pytest.param(
            "    startDeadline: 1m",
            "6:20 services[0].startDeadline: every start would fail: startDeadline 1m is shorter than startup 2m",
            id="deadline before start-up",
        ),
        pytest.param(
            "    startup: 20m",
            "6:14 services[0].startup: every start would fail: startDeadline 10m is shorter than startup 20m",
            id="start-up after deadline",
        ),
        pytest.param(
            "    stepTime: {c: 5ms, d: 10us, e: 41ns}",
            "6:15 services[0].stepTime: needs a profile, or all of c, d, e, a; missing: a",
            id="step time in part",
        ),
        pytest.param(
            "    stepTime: {c: 0, d: 10us, e: 41ns, a: 24us}",
            "6:19 services[0].stepTime.c: must be more than 0s",
            id="step without a constant",
        ),
        pytest.param(
            "    stepTime: {profile: h100_sxm/Meta-Llama-3.1-8B/tp1, c: 5ms}",
            "6:15 services[0].stepTime: give either a profile or the terms c, d, e, a; not both",
            id="profile and terms",
        ),
        pytest.param(
            "    stepTime: {profile: h100_sxm/Meta-Llama-3.1-8B/tp3}",
            "6:25 services[0].stepTime.profile: no step-time profile for GPU 'h100_sxm', model 'Meta-Llama-3.1-8B' "
            "and tensor parallelism 3; nearest: h100_sxm/Meta-Llama-3.1-8B/tp1; "
            f"shipped: {', '.join(profile_names())}",
            id="unknown profile",
        ),
        pytest.param(
            "    env: {PORT: '{prt}'}",
            "6:17 services[0].env.PORT: {prt} is no placeholder; did you mean {port}? known: {port}, "
            "{metrics_port}, {grpc_port}, {host}, {name}, {service}, {variant}, {model}, {devices}",
            id="placeholder in env",
        ),
        pytest.param(
            "    variants: [{name: a}, {name: a}]",
            "6:34 services[0].variants[1].name: a is the name of another variant above",
            id="variant twice",
        ),
        pytest.param(
            "    variants: [{name: a, command: serve}]",
            "6:35 services[0].variants[0].command: needs {port} in the command (or in env): each replica "
            "listens on a port of its own",
            id="variant without a port",
        ),
        pytest.param(
            "  - name: chat\n    slo: {e2e: 1s}\n    command: other {port}",
            "6:11 services[1].name: chat is the name of another service above",
            id="service twice",
        ),
        pytest.param(
            "  - name: two\n    slo: {e2e: 1s}\n    command: serve {port} --model org/model",
            "8:14 services[1].command: chat serves the model org/model too, so the gateway could not tell "
            "them apart; give one of them another model name (key model)",
            id="model twice",
        ),
        pytest.param(
            "gateway: {port: 8090}",
            "6:17 gateway.port: 8090 is the port of the api too; one of them has to move",
            id="ports clash",
        ),
        pytest.param(
            "gateway: {host: 127.0.0.1, port: 9000}\napi: {host: 0.0.0.0, port: 9000, open: true}",
            "7:28 api.port: 9000 is the port of the gateway too; one of them has to move",
            id="ports clash on any address",
        ),
        pytest.param(
            "api: {token: 0123456789abcdef, tokenEnv: HOME}",
            "6:42 api.tokenEnv: the token is given twice: token and tokenEnv",
            id="token twice",
        ),
        pytest.param(
            "    devices: {kind: mig-1g.10gb}\ninventory: {devices: [0]}",
            "6:14 services[0].devices: asks for devices of kind mig-1g.10gb, but inventory.devices has only gpu",
            id="no such kind",
        ),
        pytest.param(
            "    devices: {}\ninventory: {devices: []}",
            "6:14 services[0].devices: asks for devices of kind gpu, but inventory.devices is empty",
            id="no devices",
        ),
        pytest.param(
            "inventory: {devices: [0, 1, {id: '0'}]}",
            "6:29 inventory.devices[2]: 0 is listed above",
            id="device twice",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(problems: Problems, service_text: str, more: str, expected: str) -> None:
    assert problems(service_text + more) == [expected]


def test_a_service_needs_a_command(problems: Problems) -> None:
    told = problems("services: [{name: a, slo: {e2e: 1s}}]")
    assert told == ["1:12 services[0]: command is missing: a command line, or the list of its words"]


def test_the_api_is_not_opened_by_accident(problems: Problems, service_text: str) -> None:
    (told,) = problems(service_text + "api: {host: 0.0.0.0}")
    assert told.startswith("6:13 api.host: 0.0.0.0 can be reached from other machines")


@pytest.mark.parametrize(
    "more",
    [
        pytest.param("api: {host: 0.0.0.0, open: true}", id="meant to be open"),
        pytest.param("api: {host: 0.0.0.0, token: 0123456789abcdef}", id="with a token"),
        pytest.param("gateway: {port: 0}\napi: {port: 0}", id="any two free ports"),
        pytest.param("    command: [a, '{\"x\": {\"y\": 1}}', '{{messages}}', '{port}']", id="other braces"),
        pytest.param("    variants: [{name: a}, {name: b}]", id="variants with the service's command"),
        pytest.param("    devices: {count: 0}\ninventory: {devices: []}", id="no devices wanted"),
    ],
)
def test_what_is_allowed(read: Read, service_text: str, more: str) -> None:
    text = service_text.replace("    command: vllm serve org/model --port {port}\n", "") if "command" in more else None
    assert read((text or service_text) + more).warnings == ()


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param(
            "    idle: {after: 1m}",
            "chat: idle has no effect, minReplicas is 1",
            id="idle without zero",
        ),
        pytest.param(
            "    spare: 10",
            "chat: spare 10 keeps it at maxReplicas 10 always",
            id="spare takes all",
        ),
        pytest.param(
            "    devices: {count: 2}\ninventory: {devices: [0, 1, 2, 3, 4]}",
            "chat: maxReplicas is 10, the inventory carries 2",
            id="maximum out of reach",
        ),
        pytest.param(
            "    devices: {count: 2}\ninventory: {devices: [0]}",
            "chat: variant default needs 2 of gpu, the inventory has 1: it can never start",
            id="a replica out of reach",
        ),
    ],
)
def test_what_is_hardly_meant_is_warned_of(read: Read, service_text: str, more: str, expected: str) -> None:
    assert read(service_text + more).warnings == (expected,)


def test_two_services_with_models_of_their_own_are_told_apart(read: Read, service_text: str) -> None:
    assert [route.models for route in read(service_text + SECOND).routes] == [("org/model",), ("org/other",)]
