"""The emulated engine as its clients meet it: a real process, real HTTP."""

from __future__ import annotations

import http.client
import json
import signal
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from loadtests.emulator.process import EmulatorProcess

WORDS = "one two three"


def events(body: bytes) -> list[str]:
    """The payloads of a stream of server-sent events."""
    parts = body.decode().split("\n\n")
    assert parts.pop() == ""
    assert all(part.startswith("data: ") for part in parts)
    return [part.removeprefix("data: ") for part in parts]


def total(emulator: EmulatorProcess, sample_name: str) -> float:
    """Sum of a sample over its labels on the metrics page."""
    page = emulator.ask("/metrics").body.decode()
    return sum(
        sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == sample_name
    )


def await_total(emulator: EmulatorProcess, sample_name: str, value: float) -> None:
    deadline_s = time.monotonic() + 20
    while (found := total(emulator, sample_name)) != value:
        assert time.monotonic() < deadline_s, f"{sample_name} is {found}, not {value}"


def test_completion_has_exactly_the_tokens_asked_for(emulator: EmulatorProcess) -> None:
    before = total(emulator, "vllm:generation_tokens_total")
    answer = emulator.ask("/v1/completions", {"prompt": [1, 2, 3, 4], "max_tokens": 7, "ignore_eos": True})
    body = json.loads(answer.body)
    assert answer.status == 200
    assert body["object"] == "text_completion"
    assert len(body["choices"][0]["text"].split()) == 7
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["usage"] == {"prompt_tokens": 4, "total_tokens": 11, "completion_tokens": 7}
    assert total(emulator, "vllm:generation_tokens_total") - before == 7


def test_model_ends_by_itself_without_ignore_eos(emulator: EmulatorProcess) -> None:
    body = json.loads(emulator.ask("/v1/completions", {"prompt": WORDS, "max_tokens": 300}).body)
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"]["completion_tokens"] == 256


def test_completion_streams_an_event_for_each_token(emulator: EmulatorProcess) -> None:
    asked = {"prompt": WORDS, "max_tokens": 3, "stream": True, "stream_options": {"include_usage": True}}
    answer = emulator.ask("/v1/completions", asked)
    *tokens, usage, done = events(answer.body)
    assert answer.content_type.startswith("text/event-stream")
    assert done == "[DONE]"
    assert json.loads(usage)["choices"] == []
    assert json.loads(usage)["usage"] == {"prompt_tokens": 3, "total_tokens": 6, "completion_tokens": 3}
    assert [json.loads(token)["choices"][0]["finish_reason"] for token in tokens] == [None, None, "length"]
    assert len({json.loads(token)["id"] for token in tokens}) == 1


def test_chat_streams_the_role_before_the_tokens(emulator: EmulatorProcess) -> None:
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": WORDS}]
    answer = emulator.ask("/v1/chat/completions", {"messages": messages, "max_tokens": 2, "stream": True})
    role, *tokens, done = events(answer.body)
    assert json.loads(role)["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert len(tokens) == 2
    assert all(json.loads(token)["choices"][0]["delta"]["content"] for token in tokens)
    assert done == "[DONE]"


def test_whole_chat_answer(emulator: EmulatorProcess) -> None:
    asked = {"messages": [{"role": "user", "content": WORDS}], "max_completion_tokens": 2}
    body = json.loads(emulator.ask("/v1/chat/completions", asked).body)
    assert body["object"] == "chat.completion"
    assert body["choices"][0]["message"]["role"] == "assistant"
    assert body["usage"]["prompt_tokens"] == 3


def test_client_of_http_1_0_gets_the_plain_stream(emulator: EmulatorProcess) -> None:
    class OldConnection(http.client.HTTPConnection):
        _http_vsn = 10
        _http_vsn_str = "HTTP/1.0"

    connection = OldConnection("127.0.0.1", emulator.port, timeout=30)
    body = json.dumps({"prompt": WORDS, "max_tokens": 2, "stream": True})
    connection.request("POST", "/v1/completions", body)
    assert len(events(connection.getresponse().read())) == 3
    connection.close()


def test_models_are_listed(emulator: EmulatorProcess) -> None:
    [model] = json.loads(emulator.ask("/v1/models").body)["data"]
    assert model["id"] == "emulated"
    assert model["max_model_len"] == 2000


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        pytest.param({"prompt": ""}, 400, "prompt", id="no prompt"),
        pytest.param({"prompt": ["a", "b"]}, 400, "token ids", id="several prompts"),
        pytest.param({"prompt": WORDS, "max_tokens": 0}, 400, "max_tokens", id="no token"),
        pytest.param({"prompt": WORDS, "max_tokens": True}, 400, "max_tokens", id="max_tokens not a number"),
        pytest.param({"prompt": WORDS, "n": 2}, 400, "n must be 1", id="several answers"),
        pytest.param({"prompt": WORDS, "max_tokens": 1998}, 400, "2001 tokens", id="longer than the model"),
        pytest.param({"prompt": WORDS, "model": "other"}, 404, "other", id="another model"),
        pytest.param([1, 2], 400, "object", id="not an object"),
    ],
)
def test_bad_request_is_refused_in_words(emulator: EmulatorProcess, body: object, status: int, says: str) -> None:
    answer = emulator.ask("/v1/completions", body)
    assert answer.status == status
    assert says in json.loads(answer.body)["error"]["message"]


def test_client_that_leaves_takes_its_request_along(emulator: EmulatorProcess) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", emulator.port, timeout=30)
    asked = {"prompt": WORDS, "max_tokens": 1900, "ignore_eos": True, "stream": True}
    connection.request("POST", "/v1/completions", json.dumps(asked))
    assert connection.getresponse().read(10)
    await_total(emulator, "vllm:num_requests_running", 1)
    connection.close()
    await_total(emulator, "vllm:num_requests_running", 0)


def test_start_up_refuses_connections_then_answers_503() -> None:
    with EmulatorProcess("--listen-after-s", "0.3", "--startup-s", "2") as loading:
        loading.await_status("/health", 503)
        assert loading.ask("/v1/models").status == 503
        assert loading.ask("/metrics").status == 503
        loading.await_status("/health", 200)
        assert loading.ask("/metrics").status == 200


def test_told_to_end_it_ends_in_order() -> None:
    with EmulatorProcess() as process:
        process.await_status("/health", 200)
        process.process.send_signal(signal.SIGTERM)
        assert process.process.wait(20) == 0


def test_taken_port_is_said(emulator: EmulatorProcess, capfd: pytest.CaptureFixture[str]) -> None:
    with EmulatorProcess("--port", str(emulator.port)) as second:
        assert second.process.wait(20) == 1
    assert f"can't serve on 127.0.0.1:{emulator.port}" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        pytest.param(("--kv-tokens", "10"), "can't hold one request", id="cache smaller than a request"),
        pytest.param(("--step-base-ms", "0"), "base cost > 0", id="step without a length"),
        pytest.param(("--listen-after-s", "5"), "--listen-after-s must lie between 0", id="listens after it is ready"),
        pytest.param(("--fault", "page=loud"), "slow, error, empty", id="unknown fault"),
    ],
)
def test_bad_flags_are_named(flags: tuple[str, ...], says: str, capfd: pytest.CaptureFixture[str]) -> None:
    with EmulatorProcess(*flags) as process:
        assert process.process.wait(20) == 2
    assert says in capfd.readouterr().err
