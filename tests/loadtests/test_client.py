"""Reading a stream of tokens: where it may be cut, what counts, how it may end."""

from __future__ import annotations

import dataclasses
import itertools
import socket
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtests.client import PlannedRequest, Target, TokenTimes, measure
from loadtests.emulator.openai import OutputPlan, completion_of_json, frames
from loadtests.emulator.process import EmulatorProcess
from loadtests.records import Outcome, RequestRecord

REQUEST = PlannedRequest(number=3, due_s=0.0, prompt_tokens=5, output_tokens=4)


def stream(*, chat: bool, tokens: int) -> bytes:
    body = b'{"prompt": "a", "messages": [{"role": "user", "content": "a"}], "stream_options": {"include_usage": true}}'
    asked = completion_of_json(body, chat=chat, served_model="m")
    parts = frames(asked, OutputPlan(max_tokens=tokens, output_tokens=tokens, reason="length"))
    return parts.first + parts.token * (tokens - 1) + parts.last


@given(chat=st.booleans(), tokens=st.integers(1, 8), cuts=st.lists(st.integers(0, 3000), max_size=12).map(sorted))
def test_cuts_of_the_stream_change_nothing(*, chat: bool, tokens: int, cuts: list[int]) -> None:
    data = stream(chat=chat, tokens=tokens)
    edges = [0, *(cut for cut in cuts if cut < len(data)), len(data)]
    times = TokenTimes()
    for number, (begin, end) in enumerate(itertools.pairwise(edges)):
        times.feed(data[begin:end], float(number))
    assert (times.tokens, times.complete, times.error) == (tokens, True, "")


def test_times_are_those_of_the_first_and_the_last_token() -> None:
    first, *_ = data = stream(chat=False, tokens=3).split(b"\n\n")
    times = TokenTimes()
    for at_s, event in zip((1.0, 1.5, 2.5, 9.0, 9.5), data, strict=False):
        times.feed(event + b"\n\n", at_s)
    assert first.startswith(b"data: ")
    assert (times.first_s, times.last_s) == (1.0, 2.5)


def test_usage_knows_better_than_the_number_of_events() -> None:
    times = TokenTimes()
    times.feed(b'data: {"choices":[{"text":"two at once"}]}\n\n', 1.0)
    times.feed(b'data: {"choices":[],"usage":{"completion_tokens":2}}\n\n: a comment\n\ndata: [DONE]\n\n', 1.0)
    assert (times.tokens, times.complete) == (2, True)


@pytest.mark.parametrize(
    ("event", "says"),
    [
        pytest.param(b'data: {"error": {"message": "out of memory"}}\n\n', "out of memory", id="error event"),
        pytest.param(b"data: {broken\n\n", "not JSON", id="broken event"),
    ],
)
def test_bad_event_is_kept_as_the_error(event: bytes, says: str) -> None:
    times = TokenTimes()
    times.feed(event, 1.0)
    assert says in times.error


def ask(
    emulator: EmulatorProcess, *, chat: bool = False, timeout_s: float = 30.0, model: str = "emulated"
) -> RequestRecord:
    target = Target(url=emulator.url, model=model, chat=chat, timeout_s=timeout_s)
    return measure(REQUEST, target=target, begin_s=time.monotonic())


@pytest.mark.parametrize("chat", [False, True], ids=["completions", "chat"])
def test_finished_request(emulator: EmulatorProcess, *, chat: bool) -> None:
    record = ask(emulator, chat=chat)
    assert (record.outcome, record.status, record.output_tokens, record.error) == (Outcome.FINISHED, 200, 4, "")
    assert record.number == REQUEST.number
    assert record.ttft_s is not None
    assert record.itl_s is not None
    # Four steps of 5 ms: the gaps add up to the rest of the answer.
    assert 0 < record.ttft_s < record.ttft_s + 3 * record.itl_s <= record.e2e_s


def test_late_send_counts_against_the_service(emulator: EmulatorProcess) -> None:
    target = Target(url=emulator.url, model="emulated")
    record = measure(REQUEST, target=target, begin_s=time.monotonic() - 7.0)
    assert record.late_s >= 7.0
    assert record.ttft_s is not None
    assert record.ttft_s >= 7.0


def test_prompts_have_their_length(emulator: EmulatorProcess) -> None:
    """An engine that holds 2,000 tokens takes 1,996 with 4 to come, and not one more."""
    target = Target(url=emulator.url, model="emulated")

    def status(prompt_tokens: int, target: Target) -> int | None:
        request = PlannedRequest(number=1, due_s=0.0, prompt_tokens=prompt_tokens, output_tokens=4)
        return measure(request, target=target, begin_s=time.monotonic()).status

    for each in (target, dataclasses.replace(target, chat=True)):
        assert status(1996, each) == 200
        assert status(1997, each) == 400


def test_error_status_is_a_refusal(emulator: EmulatorProcess) -> None:
    assert (ask(emulator, model="other").outcome, ask(emulator, model="other").status) == (Outcome.REFUSED, 404)
    emulator.set_faults({"engine": {"kind": "error"}})
    assert (ask(emulator).outcome, ask(emulator).status) == (Outcome.REFUSED, 500)


def test_no_connection_is_a_refusal() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        target = Target(url=f"http://127.0.0.1:{unused.getsockname()[1]}", model="m")
        record = measure(REQUEST, target=target, begin_s=time.monotonic())
    assert (record.outcome, record.status, record.ttft_s) == (Outcome.REFUSED, None, None)
    assert "refused" in record.error.lower()


def test_request_that_takes_too_long_is_unfinished(emulator: EmulatorProcess) -> None:
    emulator.set_faults({"engine": {"kind": "hang"}})
    record = ask(emulator, timeout_s=0.3)
    assert (record.outcome, record.ttft_s, record.error) == (Outcome.UNFINISHED, None, "took longer than 0.3 s")


def test_broken_stream_is_unfinished() -> None:
    with EmulatorProcess("--step-base-ms", "50") as process:
        process.await_status("/health", 200)
        process.set_faults({"engine": {"kind": "crash", "seconds": 1.0}})
        target = Target(url=process.url, model="emulated")
        long = dataclasses.replace(REQUEST, output_tokens=2000)
        record = measure(long, target=target, begin_s=time.monotonic())
    assert (record.outcome, record.status) == (Outcome.UNFINISHED, 200)
    assert 0 < record.output_tokens < 2000


@pytest.mark.parametrize("url", ["localhost:80", "https://host", "http://", ""])
def test_target_must_be_an_http_url(url: str) -> None:
    with pytest.raises(ValueError, match="must be a URL"):
        Target(url=url, model="m")
