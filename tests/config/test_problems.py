"""Every mistake is told at its line, with what is allowed, what was given and what is near; all of them at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.config import ConfigError, load
from autoscaler.config.document import parse_document
from autoscaler.config.reading import read_file_section
from autoscaler.domain.service import Engine

Problems = Callable[[str], list[str]]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param(
            "    maxReplicas: 0",
            "6:18 services[0].maxReplicas: must be a whole number from 1 to 10000; got 0",
            id="out of range",
        ),
        pytest.param(
            "    maxReplicas: '4'",
            '6:18 services[0].maxReplicas: must be a whole number from 1 to 10000; got "4"',
            id="text for a number",
        ),
        pytest.param(
            "    maxReplicas: true",
            "6:18 services[0].maxReplicas: must be a whole number from 1 to 10000; got true",
            id="true for a number",
        ),
        pytest.param(
            "    maxReplica: 4",
            "6:5 services[0].maxReplica: unknown key; did you mean maxReplicas?",
            id="misspelt key",
        ),
        pytest.param(
            "    max_replicas: 4",
            "6:5 services[0].max_replicas: unknown key; did you mean maxReplicas?",
            id="snake case",
        ),
        pytest.param(
            "    ttft: 1s",
            "6:5 services[0].ttft: unknown key here; it belongs to services.slo",
            id="key of another section",
        ),
        pytest.param(
            "    intervalSeconds: 5",
            "6:5 services[0].intervalSeconds: unknown key here; it belongs to the top of the file",
            id="key of the top",
        ),
        pytest.param(
            "    engine: vLM",
            f'6:13 services[0].engine: must be one of {", ".join(Engine)}; got "vLM"; did you mean vllm?',
            id="misspelt word",
        ),
        pytest.param(
            "    startup: 90",
            None,
            id="a number of seconds is fine",
        ),
        pytest.param(
            "    startup: 90sec",
            '6:14 services[0].startup: must be a duration of more than 0s and at most 366d, such as "500ms", "1m30s" '
            'or 0.5 (seconds); got "90sec"',
            id="no duration",
        ),
        pytest.param(
            "    idle: {after: 0}",
            '6:19 services[0].idle.after: must be a duration of more than 0s and at most 366d, such as "500ms", '
            '"1m30s" or 0.5 (seconds); got 0',
            id="duration out of range",
        ),
        pytest.param(
            "    behavior: {scaleDown: {policies: [{type: Pods, value: 1}]}}",
            "6:39 services[0].behavior.scaleDown.policies[0]: periodSeconds is missing: a whole number from 1 to 1800",
            id="missing in a list",
        ),
        pytest.param(
            "    behavior: {scaleUp: {selectPolicy: max}}",
            '6:40 services[0].behavior.scaleUp.selectPolicy: must be one of Max, Min, Disabled; got "max"; '
            "did you mean Max?",
            id="wrong case",
        ),
        pytest.param(
            "    kvTokens: .inf",
            "6:15 services[0].kvTokens: must be a whole number from 1 to 1000000000000; got Infinity",
            id="infinity",
        ),
        pytest.param(
            "    cost: .nan",
            "6:11 services[0].cost: must be a number above 0 and of at most 1000000; got NaN",
            id="not a number",
        ),
        pytest.param(
            "    env: {TOKENIZERS: 1.5}",
            "6:23 services[0].env.TOKENIZERS: must be text, or a whole number; got 1.5",
            id="fraction as a variable",
        ),
        pytest.param(
            "    env: {'A B': x}",
            "6:11 services[0].env.A B: A B can't be a name here",
            id="bad variable name",
        ),
        pytest.param(
            "    requests:",
            "6:14 services[0].requests: must be a mapping of maxWaiting, maxWait, timeout; got null",
            id="empty section",
        ),
        pytest.param(
            "inventory: {devices: [0, {id: 1, king: gpu}]}",
            "6:34 inventory.devices[1].king: unknown key; did you mean kind?",
            id="within a list of two forms",
        ),
        pytest.param(
            "inventory: {devices: {}}",
            "6:22 inventory.devices: must be auto, or a list of devices; got {}",
            id="neither of two forms",
        ),
        pytest.param(
            "gateway: {maxBody: 64mb}",
            '6:20 gateway.maxBody: must be a size from 1KiB to 16GiB, such as "64MiB" or a number of bytes; got "64mb"',
            id="no size",
        ),
        pytest.param(
            "retention: 7d",
            '6:12 retention: must be a mapping of decisions, inputs, maxSize; got "7d"',
            id="value for a section",
        ),
        pytest.param(
            "wibble: 1",
            "6:1 wibble: unknown key; known here: services, kubernetes, prometheus, inventory, forecast, gateway, api, "
            "intervalSeconds, stateDir, retention, stopReplicasOnExit",
            id="nothing near",
        ),
        pytest.param(
            "stateDir: " + "x" * 5000,
            f'6:11 stateDir: must be a path; a relative one starts at this file; got "{"x" * 78}…',
            id="a long value is cut",
        ),
    ],
)
def test_one_mistake(problems: Problems, service_text: str, more: str, expected: str | None) -> None:
    if expected is None:
        assert read_file_section((service_text + more).encode(), source="chat.yaml").problems == ()
    else:
        assert problems(service_text + more) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", "1:1 services is missing: a list of 1 to 10000 entries", id="empty file"),
        pytest.param("# nothing\n", "1:1 services is missing: a list of 1 to 10000 entries", id="comment only"),
        pytest.param("- a\n", "1:1 the file must be a mapping that begins with services:", id="a list"),
        pytest.param("services\n", "1:1 the file must be a mapping that begins with services:", id="a word"),
        pytest.param("services: []\n", "1:11 services: must be a list of 1 to 10000 entries; got []", id="no service"),
        pytest.param("services: chat\n", '1:11 services: must be a list of 1 to 10000 entries; got "chat"', id="name"),
    ],
)
def test_files_that_are_no_configuration(problems: Problems, text: str, expected: str) -> None:
    assert problems(text) == [expected]


def test_all_mistakes_are_told_at_once_whatever_their_kind(problems: Problems) -> None:
    told = problems(
        """\
        services:
          - name: Chat
            slo: {}
            command: vllm serve org/model --port {prt}
            minReplicas: 20
          - name: embed
            slo: {e2e: 1s}
            name: other
            stepTime: {c: 1ms}
            startDeadline: 1m
          - 7
          - name: third
            slo: {e2e: 1s}
        gateway: {port: 8090}
        api: {host: 0.0.0.0}
        """
    )
    assert [line.split(":")[0] for line in told] == ["2", "3", "4", "5", "6", "8", "9", "10", "11", "12", "14", "15"]


def test_the_text_of_the_error_lists_file_line_and_column(write: Callable[[str], Path]) -> None:
    path = write("services: []\nwibble: 1\n")
    with pytest.raises(ConfigError) as caught:
        load(path)
    first, *rest = str(caught.value).splitlines()
    assert first == f"{path}: 2 problems"
    assert [line.split(": ")[0] for line in rest] == [f"  {path}:1:11", f"  {path}:2:1"]


@pytest.mark.parametrize("kind", ["missing", "folder"])
def test_a_file_that_can_not_be_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "absent.yaml" if kind == "missing" else tmp_path
    with pytest.raises(ConfigError, match="can't be read"):
        load(path)


def test_a_secret_is_not_repeated(problems: Problems, service_text: str) -> None:
    told = problems(service_text + "api: {token: [hunter2hunter2]}")
    assert told == ["6:14 api.token: must be text of 1 to 4096 characters; got (hidden)"]


@given(st.data())
def test_any_damage_to_a_file_is_told_within_it(data: st.DataObject) -> None:
    text = Path("examples/full.yaml").read_text(encoding="utf-8")
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    damaged = text[:start] + data.draw(st.text(max_size=10)) + text[end:]
    lines = damaged.count("\n") + 2
    try:
        read = read_file_section(damaged.encode("utf-8", "surrogatepass"), source="full.yaml")
    except ConfigError as error:
        told = error.problems
    else:
        told = read.problems
    assert all(1 <= problem.line <= lines and problem.message for problem in told)


def test_every_key_of_the_full_example_is_told_when_it_is_of_the_wrong_kind() -> None:
    """The message machinery knows the form of every key of the file."""
    document = parse_document(Path("examples/full.yaml").read_bytes())
    text = Path("examples/full.yaml").read_text(encoding="utf-8").splitlines()
    for path, mark in document.values.items():
        line = text[mark.line - 1]
        if path not in document.keys or document.keys[path].line != mark.line:
            continue  # a mapping or list that begins in the next line
        broken = [*text]
        broken[mark.line - 1] = line[: mark.column - 1] + "[[1]]"
        problems = read_file_section("\n".join(broken).encode(), source="full.yaml").problems
        assert any(problem.line == mark.line and "must be" in problem.message for problem in problems), path
