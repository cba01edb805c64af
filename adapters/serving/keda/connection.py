"""One connection of HTTP/2 as a server of gRPC sees it (RFC 9113; gRPC's ``doc/PROTOCOL-HTTP2.md``).

grpcio hands each call over between threads that share Python's lock, which takes twice the processor time of this and
makes answers late. Here a call is read, answered and written in one turn of the event loop. Headers are read by hpack.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from adapters.serving.keda.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_STREAM,
    FIRST_WINDOW_BYTES,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_HEADER_LIST_SIZE,
    MOST_STREAM,
    MOST_WINDOW_BYTES,
    PING,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    BrokenConnectionError,
    ErrorCode,
    Frame,
    FrameReader,
    frame,
    goaway,
    reset,
    settings,
)
from adapters.serving.keda.headers import MAX_HEADER_BYTES, HeaderReader
from adapters.serving.keda.limits import Limits
from adapters.serving.keda.streams import Stream

# So much of all requests together may be under way; a request's own limit is far below that of its stream.
_WINDOW_BYTES = 1024 * 1024
_STREAM_WINDOW_BYTES = 128 * 1024
# A client that sends but takes nothing in (RFC 9113, section 10.5) is cut off.
_MAX_UNREAD_BYTES = 1024 * 1024
# Between two looks at a client: settings, and requests that it takes back (CVE-2023-44487), which cost it least.
_MOST_ODDITIES = 4096
_RETIRING = b"retiring"
_AGES_APART = 0.1


class Connection(asyncio.Protocol):
    """Reads requests; ``answer`` is called with each that is whole, or too long."""

    def __init__(
        self,
        limits: Limits,
        answer: Callable[[Stream], None],
        came: Callable[[Connection], bool],
        left: Callable[[Connection], None],
    ) -> None:
        """``came``: called once it is open; False turns it away. ``left``: called once it is no more."""
        self._limits = limits
        self._answer = answer
        self._came, self._left = came, left
        self._frames = FrameReader()
        self._headers = HeaderReader()
        self._streams: dict[int, Stream] = {}
        self._last_stream = 0
        self._stream_window = FIRST_WINDOW_BYTES
        self._allowed, self._taken = _WINDOW_BYTES, 0
        self._out: list[bytes] | None = None
        self._settled = self._heard = self._retired = self._opened = False
        self._oddities = 0
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._transport: asyncio.Transport | None = None
        self.window = FIRST_WINDOW_BYTES

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's; after the TLS handshake."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if not self._came(self):
            transport.abort()
            return
        limits = self._limits
        values = {
            MAX_CONCURRENT_STREAMS: limits.max_streams,
            INITIAL_WINDOW_SIZE: _STREAM_WINDOW_BYTES,
            MAX_HEADER_LIST_SIZE: MAX_HEADER_BYTES,
        }
        more = (_WINDOW_BYTES - FIRST_WINDOW_BYTES).to_bytes(4, "big")
        self.write(frame(SETTINGS, 0, 0, settings(values)) + frame(WINDOW_UPDATE, 0, 0, more))
        self._after("greeting", limits.answer_s, self._expect_greeting)
        self._after("silence", limits.silent_s, self._ask)
        self._after("age", limits.age_s * random.uniform(1 - _AGES_APART, 1 + _AGES_APART), self._retire)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio's."""
        for timer in self._timers.values():
            timer.cancel()
        for stream in tuple(self._streams.values()):
            stream.cancel()
        self._streams.clear()
        self._left(self)

    def data_received(self, data: bytes) -> None:
        """asyncio's."""
        if self._transport is None or self._transport.is_closing():
            return
        self._heard = True
        self._out = []
        try:
            for each in self._frames.feed(data):
                self._take(each)
        except BrokenConnectionError as error:
            self._out.append(goaway(self._last_stream, error.code, str(error)))
            self._flush()
            self._close()
        else:
            self._flush()

    def write(self, data: bytes) -> None:
        """Send it, what belongs to one turn together."""
        if self._out is not None:
            self._out.append(data)
        elif self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def ended(self, stream: Stream) -> None:
        """As a stream says of itself."""
        if self._streams.pop(stream.number, None) is not None:
            self._credit(stream.unacknowledged)
        self._close_when_done()

    def shut(self) -> None:
        """Take no more requests, and close once those are answered that are under way."""
        if not self._retired:
            self._retired = True
            self.write(goaway(self._last_stream, ErrorCode.NO_ERROR, "stopping"))
        self._close_when_done()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    # Time

    def _after(self, name: str, seconds: float, then: Callable[[], None]) -> None:
        self._timers[name] = asyncio.get_running_loop().call_later(seconds, then)

    def _expect_greeting(self) -> None:
        if not self._settled:
            self.abort()

    def _ask(self) -> None:
        self._heard, self._oddities = False, 0
        for stream in [each for each in self._streams.values() if each.overdue()]:
            self.write(reset(stream.number, ErrorCode.ENHANCE_YOUR_CALM))
            self._drop(stream)
        self.write(frame(PING, 0, 0, b"there?  "))
        self._after("silence", self._limits.answer_s, self._expect_answer)

    def _expect_answer(self) -> None:
        if not self._heard:
            self.abort()
        else:
            self._after("silence", self._limits.silent_s, self._ask)

    def _retire(self) -> None:
        """Two GOAWAYs, so that no request gets lost that is on its way (RFC 9113, section 6.8)."""
        self.write(goaway(MOST_STREAM, ErrorCode.NO_ERROR, "connect anew") + frame(PING, 0, 0, _RETIRING))
        self._after("age", self._limits.answer_s, self.shut)

    # Frames

    def _take(self, each: Frame) -> None:
        if not self._headers.expects(each):
            raise BrokenConnectionError(ErrorCode.PROTOCOL_ERROR, "headers that are not continued")
        if not self._settled and each.kind != SETTINGS:
            raise BrokenConnectionError(ErrorCode.PROTOCOL_ERROR, "settings come first")
        take = _TAKING.get(each.kind)
        if take is not None:  # what else there is may be let pass (RFC 9113, section 5.5)
            take(self, each)

    def _take_headers(self, each: Frame) -> None:
        head = self._headers.take(each)
        if head is None:
            return
        if head.stream <= self._last_stream:  # the end of a request with trailers, or of one that is answered already
            if not head.ends:
                raise BrokenConnectionError(ErrorCode.PROTOCOL_ERROR, f"headers amidst stream {head.stream}")
            if head.stream in self._streams:
                self._whole(self._streams[head.stream])
        elif not self._retired:
            self._last_stream = head.stream
            if len(self._streams) >= self._limits.max_streams:
                self.write(reset(head.stream, ErrorCode.REFUSED_STREAM))
                return
            stream = self._streams[head.stream] = Stream(self, head.stream, head.headers, window=self._stream_window)
            if head.ends:
                self._whole(stream)

    def _take_data(self, each: Frame) -> None:
        if each.stream % 2 == 0 or (each.stream > self._last_stream and not self._retired):
            raise BrokenConnectionError(ErrorCode.PROTOCOL_ERROR, f"data of no stream: {each.stream}")
        size = len(each.payload)
        self._allowed -= size
        if self._allowed < 0:
            raise BrokenConnectionError(ErrorCode.FLOW_CONTROL_ERROR, "more data than was allowed")
        content = each.content()
        stream = self._streams.get(each.stream)
        if stream is None or stream.too_long:
            self._credit(size)
            return
        if stream.received:
            raise BrokenConnectionError(ErrorCode.STREAM_CLOSED, f"data after the end of stream {each.stream}")
        stream.unacknowledged += size
        stream.body += content
        if len(stream.body) > self._limits.max_message_bytes:
            stream.too_long = True
            stream.body.clear()
            stream.received = bool(each.flags & END_STREAM)
            self._answer(stream)
        elif each.flags & END_STREAM:
            self._whole(stream)

    def _whole(self, stream: Stream) -> None:
        if stream.received:
            raise BrokenConnectionError(ErrorCode.STREAM_CLOSED, f"stream {stream.number} has ended twice")
        stream.received = True
        self._credit(stream.unacknowledged)  # calls that stay open must not use up the room of others
        stream.unacknowledged = 0
        self._answer(stream)
        stream.body.clear()

    def _take_reset(self, each: Frame) -> None:
        _expect(each, held=len(each.payload) == 4)
        if each.stream == 0 or (each.stream > self._last_stream and not self._retired):
            raise BrokenConnectionError(ErrorCode.PROTOCOL_ERROR, f"reset of no stream: {each.stream}")
        stream = self._streams.get(each.stream)
        if stream is not None:
            self._drop(stream)
            self._odd()

    def _drop(self, stream: Stream) -> None:
        del self._streams[stream.number]
        stream.cancel()
        self._credit(stream.unacknowledged)
        self._close_when_done()

    def _odd(self) -> None:
        self._oddities += 1
        if self._oddities > _MOST_ODDITIES:
            raise BrokenConnectionError(ErrorCode.ENHANCE_YOUR_CALM, "too much but requests")

    def _take_settings(self, each: Frame) -> None:
        _expect(each, held=each.stream == 0, code=ErrorCode.PROTOCOL_ERROR)
        _expect(each, held=len(each.payload) % 6 == 0 and not (each.flags & ACK and each.payload))
        if each.flags & ACK:
            return
        self._settled = True
        self._odd()
        window = self._stream_window
        for at in range(0, len(each.payload), 6):
            value = int.from_bytes(each.payload[at + 2 : at + 6], "big")
            if int.from_bytes(each.payload[at : at + 2], "big") == INITIAL_WINDOW_SIZE:
                _expect(each, held=value <= MOST_WINDOW_BYTES, code=ErrorCode.FLOW_CONTROL_ERROR)
                window = value
        if window != self._stream_window:
            for stream in self._streams.values():
                stream.window += window - self._stream_window
            self._stream_window, self._opened = window, True
        self.write(frame(SETTINGS, ACK, 0, b""))

    def _take_ping(self, each: Frame) -> None:
        _expect(each, held=each.stream == 0, code=ErrorCode.PROTOCOL_ERROR)
        _expect(each, held=len(each.payload) == 8)
        if not each.flags & ACK:
            self.write(frame(PING, ACK, 0, each.payload))
        elif each.payload == _RETIRING:
            self.shut()

    def _take_window(self, each: Frame) -> None:
        _expect(each, held=len(each.payload) == 4)
        more = int.from_bytes(each.payload, "big") & MOST_WINDOW_BYTES
        _expect(each, held=more > 0, code=ErrorCode.PROTOCOL_ERROR)
        stream = self._streams.get(each.stream)
        if each.stream == 0:
            self.window, self._opened = self.window + more, True
            _expect(each, held=self.window <= MOST_WINDOW_BYTES, code=ErrorCode.FLOW_CONTROL_ERROR)
        elif stream is not None:
            stream.window += more
            _expect(each, held=stream.window <= MOST_WINDOW_BYTES, code=ErrorCode.FLOW_CONTROL_ERROR)
            stream.push()

    def _take_push(self, each: Frame) -> None:
        raise BrokenConnectionError(ErrorCode.PROTOCOL_ERROR, "clients promise nothing")

    # Sending

    def _credit(self, size: int) -> None:
        """Let the client send as much again, told once it is worth a frame."""
        self._taken += size
        if self._taken >= _WINDOW_BYTES // 2:
            self.write(frame(WINDOW_UPDATE, 0, 0, self._taken.to_bytes(4, "big")))
            self._allowed += self._taken
            self._taken = 0

    def _flush(self) -> None:
        if self._opened:  # once for all that has come, as there may be many streams
            self._opened = False
            for stream in tuple(self._streams.values()):
                stream.push()
        data, self._out = b"".join(self._out or ()), None
        if data:
            self.write(data)
        if self._transport is not None and self._transport.get_write_buffer_size() > _MAX_UNREAD_BYTES:
            self.abort()
        self._close_when_done()

    def _close_when_done(self) -> None:
        if self._retired and not self._streams and self._out is None:
            self._close()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


_TAKING: dict[int, Callable[[Connection, Frame], None]] = {
    DATA: Connection._take_data,
    HEADERS: Connection._take_headers,
    CONTINUATION: Connection._take_headers,
    RST_STREAM: Connection._take_reset,
    SETTINGS: Connection._take_settings,
    PING: Connection._take_ping,
    WINDOW_UPDATE: Connection._take_window,
    PUSH_PROMISE: Connection._take_push,
}


def _expect(each: Frame, *, held: bool, code: ErrorCode = ErrorCode.FRAME_SIZE_ERROR) -> None:
    if not held:
        raise BrokenConnectionError(code, f"a frame of kind {each.kind} that makes no sense")
