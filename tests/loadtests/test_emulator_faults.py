"""Each fault can be set, is seen from outside, and ends."""

from __future__ import annotations

import http.client
import json
import math
import threading
import time

import pytest

from loadtests.emulator.faults import EngineFault, Fault, Faults, PageFault, fault_of_words, faults_of_json
from loadtests.emulator.process import EmulatorProcess

COMPLETION = {"prompt": [1], "max_tokens": 4, "ignore_eos": True}


@pytest.mark.parametrize(
    ("kind", "status", "content_type", "seen"),
    [
        pytest.param("error", 500, "text/plain", b"Internal Server Error", id="error"),
        pytest.param("empty", 200, "text/plain", b"", id="empty"),
        pytest.param("html", 200, "text/html", b"<html>", id="html"),
        pytest.param(
            "nan", 200, "text/plain", b'vllm:num_requests_running{engine="0",model_name="emulated"} NaN', id="nan"
        ),
    ],
)
def test_page_fault_spoils_the_page_alone(
    emulator: EmulatorProcess, kind: str, status: int, content_type: str, seen: bytes
) -> None:
    emulator.set_faults({"page": {"kind": kind}})
    answer = emulator.ask("/metrics")
    assert answer.status == status
    assert answer.content_type.startswith(content_type)
    assert seen in answer.body
    assert emulator.ask("/health").status == 200
    assert emulator.ask("/v1/completions", COMPLETION).status == 200
    emulator.clear_faults()
    sound = emulator.ask("/metrics")
    assert sound.status == 200
    assert b"vllm:num_requests_running" in sound.body


def test_missing_family_is_not_on_the_page(emulator: EmulatorProcess) -> None:
    emulator.set_faults({"page": {"kind": "missing", "family": "vllm:num_requests_running"}})
    page = emulator.ask("/metrics").body
    assert b"vllm:num_requests_running" not in page
    assert b"vllm:num_requests_waiting{" in page


def test_stale_page_does_not_move(emulator: EmulatorProcess) -> None:
    emulator.set_faults({"page": {"kind": "stale"}})
    before = emulator.ask("/metrics").body
    emulator.ask("/v1/completions", COMPLETION)
    assert emulator.ask("/metrics").body == before
    emulator.clear_faults()
    assert emulator.ask("/metrics").body != before


def test_slow_page_comes_late(emulator: EmulatorProcess) -> None:
    emulator.set_faults({"page": {"kind": "slow", "seconds": 0.5}})
    with pytest.raises(TimeoutError):
        emulator.ask("/metrics", timeout_s=0.1)
    assert b"vllm:" in emulator.ask("/metrics").body


def test_hanging_page_answers_when_the_fault_is_cleared(emulator: EmulatorProcess) -> None:
    emulator.set_faults({"page": {"kind": "hang"}})
    with pytest.raises(TimeoutError):
        emulator.ask("/metrics", timeout_s=0.3)
    pages: list[bytes] = []
    waiting = threading.Thread(target=lambda: pages.append(emulator.ask("/metrics").body))
    waiting.start()
    emulator.clear_faults()
    waiting.join(20)
    assert [b"vllm:" in page for page in pages] == [True]


def test_hanging_engine_accepts_requests_and_gives_no_token(emulator: EmulatorProcess) -> None:
    emulator.set_faults({"engine": {"kind": "hang"}})
    answers: list[int] = []
    waiting = threading.Thread(target=lambda: answers.append(emulator.ask("/v1/completions", COMPLETION).status))
    waiting.start()
    deadline_s = time.monotonic() + 20
    while b'vllm:num_requests_waiting{engine="0",model_name="emulated"} 1.0' not in emulator.ask("/metrics").body:
        assert time.monotonic() < deadline_s
    assert answers == []
    emulator.clear_faults()
    waiting.join(20)
    assert answers == [200]


def test_slow_engine_takes_longer_steps(emulator: EmulatorProcess) -> None:
    def duration_s() -> float:
        begin_s = time.monotonic()
        assert emulator.ask("/v1/completions", COMPLETION).status == 200
        return time.monotonic() - begin_s

    # Four steps of 5 ms each, so at least 400 ms when they take 20 times as long; never less, however busy the machine.
    emulator.set_faults({"engine": {"kind": "slow", "factor": 20}})
    assert duration_s() >= 0.4


def test_failing_engine_answers_500_and_is_still_healthy(emulator: EmulatorProcess) -> None:
    emulator.set_faults({"engine": {"kind": "error"}})
    assert emulator.ask("/v1/completions", COMPLETION).status == 500
    assert emulator.ask("/health").status == 200
    emulator.clear_faults()
    assert emulator.ask("/v1/completions", COMPLETION).status == 200


def test_fault_ends_by_itself(emulator: EmulatorProcess) -> None:
    emulator.set_faults({"page": {"kind": "error", "for_s": 0.2}})
    emulator.await_status("/metrics", 200)
    assert json.loads(emulator.ask("/faults").body) == {"page": None, "engine": None}


def test_refusing_engine_refuses_connections_and_comes_back(emulator: EmulatorProcess) -> None:
    emulator.set_faults({"engine": {"kind": "refuse", "for_s": 1.0}})
    emulator.await_status("/health", None)
    emulator.await_status("/health", 200)


def test_crash_on_demand_breaks_the_answer_under_way() -> None:
    with EmulatorProcess("--step-base-ms", "50") as process:
        process.await_status("/health", 200)
        connection = http.client.HTTPConnection("127.0.0.1", process.port, timeout=30)
        asked = {"prompt": [1], "max_tokens": 4000, "ignore_eos": True, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(asked))
        response = connection.getresponse()
        assert response.read(10)
        process.set_faults({"engine": {"kind": "crash"}})
        with pytest.raises((OSError, http.client.HTTPException)):
            response.read()
        assert process.process.wait(20) == 1
        connection.close()


@pytest.mark.parametrize("fault", ["engine=crash-at-start", "engine=crash:0.1"])
def test_crash_from_the_command_line(fault: str) -> None:
    with EmulatorProcess("--fault", fault) as process:
        assert process.process.wait(20) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("page=slow:3", Faults(page=Fault(kind=PageFault.SLOW, seconds=3)), id="seconds"),
        pytest.param("page=missing:vllm:x", Faults(page=Fault(kind=PageFault.MISSING, family="vllm:x")), id="family"),
        pytest.param("page=missing", Faults(page=Fault(kind=PageFault.MISSING)), id="default family"),
        pytest.param("engine=slow:2.5", Faults(engine=Fault(kind=EngineFault.SLOW, factor=2.5)), id="factor"),
        pytest.param("engine=refuse:9", Faults(engine=Fault(kind=EngineFault.REFUSE, for_s=9)), id="duration"),
    ],
)
def test_faults_in_words(text: str, expected: Faults) -> None:
    assert fault_of_words(text) == expected


def test_faults_in_json() -> None:
    body = {"page": {"kind": "slow", "seconds": 2}, "engine": {"kind": "slow", "factor": 3, "for_s": 4}}
    assert faults_of_json(body) == Faults(
        page=Fault(kind=PageFault.SLOW, seconds=2.0), engine=Fault(kind=EngineFault.SLOW, factor=3.0, for_s=4.0)
    )
    assert faults_of_json({}) == Faults()
    assert math.isinf(Fault(kind=PageFault.HANG).for_s)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        pytest.param([], "must be an object", id="not an object"),
        pytest.param({"gpu": {}}, "unknown key 'gpu'", id="unknown side"),
        pytest.param({"page": {"kind": "loud"}}, "page.kind: must be one of slow, error", id="unknown kind"),
        pytest.param({"page": {"kind": "slow", "second": 1}}, "unknown key 'second'", id="unknown parameter"),
        pytest.param({"page": {"kind": "slow", "seconds": "1"}}, "page.seconds: must be a number", id="text"),
        pytest.param({"engine": {"kind": "slow", "factor": 0}}, "factor must be > 0", id="no factor"),
        pytest.param({"engine": {"kind": "refuse"}}, "needs for_s", id="refusal for ever"),
        pytest.param({"engine": {"kind": "crash-at-start"}}, "command line only", id="too late to crash at the start"),
        pytest.param({"page": {"kind": "missing", "family": 3}}, "page.family", id="family not a name"),
    ],
)
def test_bad_fault_is_named(emulator: EmulatorProcess, body: object, says: str) -> None:
    with pytest.raises(ValueError, match=r"must|unknown|needs|only") as caught:
        emulator.set_faults(body)
    assert says in json.loads(str(caught.value))["error"]
