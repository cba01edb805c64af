"""HTTP/2 and gRPC's use of it: what clients may send, in whatever pieces, and what ends their connection."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.serving.keda.calls import Calls, RefusedCallError, Status
from tests.keda.raw_http2 import (
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADERS,
    LIMITS,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    answers,
    block,
    converse,
    frame,
    message,
    request,
    settings,
)

HELLO = PREFACE + settings()


def echo(data: bytes) -> bytes:
    """Refuses what says so."""
    if data.startswith(b"refuse"):
        raise RefusedCallError(Status.NOT_FOUND, data.decode())
    if data == b"fail":
        raise ZeroDivisionError
    return b"re: " + data


ANY_FRAME = st.tuples(st.integers(0, 9), st.integers(0, 255), st.integers(0, 5), st.binary(max_size=60))
CALLS = Calls("externalscaler.ExternalScaler", unary={"GetMetrics": echo}, streaming={})


def code_of_goaway(*pieces: bytes) -> int | None:
    """The code with which the connection is ended by the server, None where it goes on."""
    sent, wire = converse(pieces, CALLS.answer)
    last = sent[-1]
    assert wire.closed is (last.kind == GOAWAY)
    return int.from_bytes(last.payload[4:8], "big") if last.kind == GOAWAY else None


def data_of(*pieces: bytes) -> dict[int, bytes]:
    """Messages by stream."""
    sent, _ = converse(pieces, CALLS.answer)
    return {
        stream: b"".join(payload for kind, _, payload in told if kind == DATA) for stream, told in answers(sent).items()
    }


def status_of(*pieces: bytes) -> bytes:
    """The headers that end stream 1, as they are sent."""
    sent, _ = converse((HELLO, *pieces), CALLS.answer)
    return next(payload for kind, flags, payload in answers(sent)[1] if kind == HEADERS and flags & 1)


CONVERSATION = (
    HELLO
    + frame(PRIORITY, 0, 1, bytes(5))
    + request(1, b"one")
    + frame(PING, 0, 0, b"12345678")
    + frame(HEADERS, 0x8 | 0x20, 3, b"\x02" + bytes(5) + block()[:20] + b"\x00\x00")
    + frame(CONTINUATION, 0x4, 3, block()[20:])
    + frame(DATA, 0x8, 3, b"\x03" + message(b"three")[:4] + b"\x00\x00\x00")
    + frame(DATA, 0x1, 3, message(b"three")[4:])
    + frame(0xFA, 0xFF, 0, b"unknown kinds are let pass")
    + request(5, b"refuse 50 % \xe2\x82\xac")
)


@given(cuts=st.sets(st.integers(1, len(CONVERSATION) - 1)))
def test_the_answers_do_not_depend_on_how_the_bytes_are_cut(cuts: set[int]) -> None:
    pieces = [CONVERSATION[begin:end] for begin, end in pairwise((0, *sorted(cuts), len(CONVERSATION)))]
    sent, wire = converse(pieces, CALLS.answer)
    told = answers(sent)
    assert not wire.closed
    assert [kind for kind, _, _ in told[1]] == [HEADERS, DATA, HEADERS]
    assert told[1][1][2] == message(b"re: one")
    assert told[3][1][2] == message(b"re: three")
    assert b"refuse 50 %25 %E2%82%AC" in told[5][-1][2]
    assert [each.payload for each in sent if each.kind == PING] == [b"12345678"]


@given(data=st.binary(max_size=200), frames=st.lists(ANY_FRAME))
def test_whatever_comes_the_connection_goes_on_or_is_ended_in_order(
    data: bytes, frames: list[tuple[int, int, int, bytes]]
) -> None:
    assert code_of_goaway(HELLO, *(frame(*each) for each in frames), data) in {None, 1, 3, 5, 6, 9, 0xB}
    code_of_goaway(data)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", 1, id="HTTP/1.1"),
        pytest.param(PREFACE + frame(PING, 0, 0, bytes(8)), 1, id="no settings"),
        pytest.param(HELLO + frame(DATA, 0, 1, bytes(16_385)), 6, id="frame too long"),
        pytest.param(HELLO + request(2), 1, id="stream of a server"),
        pytest.param(HELLO + frame(DATA, 1, 1, message(b"")), 1, id="data before headers"),
        pytest.param(HELLO + frame(RST_STREAM, 0, 7, bytes(4)), 1, id="reset of no stream"),
        pytest.param(HELLO + frame(CONTINUATION, 4, 1, block()), 1, id="nothing to continue"),
        pytest.param(HELLO + frame(HEADERS, 0, 1, block()) + frame(PING, 0, 0, bytes(8)), 1, id="not continued"),
        pytest.param(HELLO + frame(PUSH_PROMISE, 4, 1, bytes(4)), 1, id="promise of a client"),
        pytest.param(HELLO + frame(HEADERS, 4, 1, b"\xff\xff\xff\xff"), 9, id="no headers"),
        pytest.param(HELLO + frame(HEADERS, 0xC, 1, b"\xff" + block()), 1, id="padding beyond the frame"),
        pytest.param(HELLO + frame(SETTINGS, 0, 0, bytes(5)), 6, id="half a setting"),
        pytest.param(HELLO + frame(SETTINGS, 0, 1, b""), 1, id="settings of a stream"),
        pytest.param(HELLO + settings(s4=2**31), 3, id="window too large"),
        pytest.param(HELLO + frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff"), 3, id="more and more window"),
        pytest.param(HELLO + frame(WINDOW_UPDATE, 0, 0, bytes(4)), 1, id="no more window"),
        pytest.param(HELLO + frame(PING, 0, 0, b"short"), 6, id="short ping"),
        pytest.param(
            HELLO + frame(HEADERS, 0, 1, block()) + b"".join(frame(CONTINUATION, 0, 1, bytes(4000)) for _ in range(9)),
            0xB,
            id="headers without end",
        ),
    ],
)
def test_what_breaks_the_protocol_ends_the_connection_with_its_code(sent: bytes, code: int) -> None:
    assert code_of_goaway(sent) == code


def test_a_large_table_entry_repeated_is_no_way_to_fill_the_memory() -> None:
    entry = b"\x40\x01a\x7f\x81\x1e" + b"x" * 3968  # a header of so many letters, from then on known as number 62
    assert code_of_goaway(HELLO, frame(HEADERS, 4, 1, entry + b"\xbe" * 10)) == 0xB


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(request(1, path="/externalscaler.ExternalScaler/Nothing"), b"12", id="no such method"),
        pytest.param(frame(HEADERS, 5, 1, block()), b"13", id="no message"),
        pytest.param(frame(HEADERS, 4, 1, block()) + frame(DATA, 1, 1, message(b"a") * 2), b"13", id="two messages"),
        pytest.param(frame(HEADERS, 4, 1, block()) + frame(DATA, 1, 1, message(b"a", flag=1)), b"12", id="compressed"),
        pytest.param(frame(HEADERS, 4, 1, block()) + frame(DATA, 0, 1, message(bytes(1001))), b"8", id="too long"),
        pytest.param(request(1, b"refuse"), b"5", id="refused"),
    ],
)
def test_a_call_that_can_not_be_answered_ends_with_a_status_and_the_connection_goes_on(
    sent: bytes, status: bytes
) -> None:
    assert b"\x0bgrpc-status" + bytes([len(status)]) + status in status_of(sent)
    assert data_of(HELLO, sent, request(3, b"next"))[3] == message(b"re: next")


def test_a_call_that_fails_is_logged_and_ends_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    assert b"\x0bgrpc-status\x012" in status_of(request(1, b"fail"))
    assert "a call failed" in caplog.text
    assert data_of(HELLO, request(1, b"fail"), request(3, b"next"))[3] == message(b"re: next")


def test_what_is_no_grpc_is_told_so_by_http() -> None:
    assert b"\x07:status\x03415" in status_of(request(1, kind="application/json"))


@given(text=st.text(max_size=3000))
def test_texts_of_errors_arrive_as_printable_ascii_in_one_frame(text: str) -> None:
    told = status_of(request(1, b"refuse" + text.encode()[:900]))
    at = told.index(b"grpc-message")
    assert len(told) <= 8192
    assert all(0x20 <= byte <= 0x7E for byte in told[at + 15 :])


@given(first=st.integers(0, 40), more=st.lists(st.integers(1, 7), max_size=20), size=st.integers(0, 90))
def test_no_more_is_sent_than_the_client_allows_and_in_the_end_all_of_it(
    first: int, more: list[int], size: int
) -> None:
    whole = message(b"re: " + bytes(size))
    allowed = first + sum(more)
    pieces = [PREFACE + settings(s4=first), request(1, bytes(size))]
    pieces += [frame(WINDOW_UPDATE, 0, 1, each.to_bytes(4, "big")) for each in more]
    assert data_of(*pieces).get(1, b"") == whole[:allowed]
    rest = frame(WINDOW_UPDATE, 0, 1, (1000).to_bytes(4, "big"))
    sent, _ = converse((*pieces, rest), CALLS.answer)
    assert answers(sent)[1][-1][:2] == (HEADERS, 5)
    assert data_of(*pieces, rest)[1] == whole


def test_the_window_of_a_connection_is_shared_by_its_streams_and_opened_again() -> None:
    calls = [request(1 + 2 * index, bytes(900)) for index in range(100)]
    sent = data_of(HELLO, *calls)
    assert sum(map(len, sent.values())) == 65_535
    sent = data_of(HELLO, *calls, frame(WINDOW_UPDATE, 0, 0, (2**30).to_bytes(4, "big")))
    whole = len(message(b"re: " + bytes(900)))
    answered = 65_535 // whole + LIMITS.max_streams
    assert [len(each) for each in sent.values()] == [whole] * answered + [0] * (100 - answered)


def test_a_client_may_send_for_ever_if_it_waits_for_room() -> None:
    calls = [request(1 + 2 * index, bytes(900)) for index in range(700)]
    opened = frame(WINDOW_UPDATE, 0, 0, (2**30).to_bytes(4, "big"))
    sent, wire = converse((HELLO, opened, *calls), CALLS.answer)
    granted = [int.from_bytes(each.payload, "big") for each in sent if each.kind == WINDOW_UPDATE and not each.stream]
    assert not wire.closed
    assert sum(granted) >= 2**20 - 65_535 + 512 * 1024


def test_so_many_requests_at_once_and_no_more() -> None:
    begun = [frame(HEADERS, 4, 1 + 2 * index, block()) for index in range(LIMITS.max_streams + 1)]
    sent, _ = converse((HELLO, *begun), CALLS.answer)
    assert answers(sent) == {7: [(RST_STREAM, 0, (7).to_bytes(4, "big"))]}


def test_one_that_leaves_makes_room_and_what_comes_for_it_later_is_let_pass() -> None:
    begun = [frame(HEADERS, 4, 1 + 2 * index, block()) for index in range(LIMITS.max_streams)]
    late = frame(RST_STREAM, 0, 1, bytes(4)) + frame(DATA, 1, 1, message(b"late"))
    assert data_of(HELLO, *begun, late, request(7, b"next")) == {7: message(b"re: next")}


def test_a_client_that_takes_nothing_in_is_cut_off() -> None:
    pings = frame(PING, 0, 0, bytes(8)) * 1000
    _, wire = converse((HELLO, *[pings] * 100), CALLS.answer)
    assert wire.closed
    assert len(wire.written) < 1_100_000
