"""What the gateway counts of each service, and whether a request met the SLO.

The clock of a request starts when the gateway has received it whole. A request is judged when it is over:

- missed: it failed (an answer of 500 or above, none, or a broken one), was refused (by the gateway, or by the replica
  with 429 or 503), or broke a threshold. A client that gave up later than a threshold allows has been missed too.
- within the SLO: answered, no threshold broken, and at least one threshold can be seen from here. ``e2e_s`` always
  can; ``ttft_s`` and ``itl_s`` only in a streamed answer, since one sent whole does not show its first token.
  ``queue_s`` is spent in the replica: only a longer time held by the gateway itself breaks it.
- not judged: refused for the client's own fault (other 4xx), given up in time, or no threshold can be seen.

Bounds of the histograms: vLLM's (vllm/v1/metrics/loggers.py), finer at the low end of the whole time, and the
service's own thresholds, so that the share within the SLO can be read off without interpolation.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from autoscaler.domain.reading import GatewayReading, Histogram
from autoscaler.domain.service import ServiceId, Slo

# fmt: off
_TTFT_BOUNDS_S = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
)
_ITL_BOUNDS_S = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)
_E2E_BOUNDS_S = (
    0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0,
    240.0, 480.0, 960.0, 1920.0, 7680.0,
)
# fmt: on

# How the pieces of a streamed answer end, by media type: one piece is about one token.
_PIECE_ENDS = {
    "text/event-stream": (b"\n\n", b"\r\n\r\n"),
    "application/x-ndjson": (b"\n",),
    "application/jsonl": (b"\n",),
}
# The last event of OpenAI's streams carries no token.
_STREAM_END = b"data: [DONE]\n\n"


class _Tally:
    """A histogram that is added to."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(self.bounds) + 1)
        self._total = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self.bounds, value)] += 1
        self._total += value

    def histogram(self) -> Histogram:
        cumulative = [float(count) for count in accumulate(self._counts)]
        return Histogram(self.bounds, tuple(cumulative[:-1]), cumulative[-1], self._total)


def _with_threshold(tally: _Tally | None, bounds: tuple[float, ...], threshold: float | None) -> _Tally:
    """The tally where it has these bounds already, else an empty one."""
    wanted = tuple(sorted({*bounds, *(() if threshold is None else (threshold,))}))
    return tally if tally is not None and tally.bounds == wanted else _Tally(wanted)


class ServiceMeter:
    """The counts of one service since the gateway's start."""

    def __init__(self, slo: Slo) -> None:
        self.arrivals = 0
        self.finished = 0
        self.failed = 0
        self.refused = 0
        self.in_flight = 0
        self.judged = 0
        self.within_slo = 0
        self.slo = slo
        self.ttft = _with_threshold(None, _TTFT_BOUNDS_S, slo.ttft_s)
        self.itl = _with_threshold(None, _ITL_BOUNDS_S, slo.itl_s)
        self.e2e = _with_threshold(None, _E2E_BOUNDS_S, slo.e2e_s)

    def set_slo(self, slo: Slo) -> None:
        """Judge by these thresholds from now on. A histogram whose threshold changes begins anew."""
        self.slo = slo
        self.ttft = _with_threshold(self.ttft, _TTFT_BOUNDS_S, slo.ttft_s)
        self.itl = _with_threshold(self.itl, _ITL_BOUNDS_S, slo.itl_s)
        self.e2e = _with_threshold(self.e2e, _E2E_BOUNDS_S, slo.e2e_s)

    def arrive(self, at_s: float) -> Exchange:
        """A request has been received whole."""
        self.arrivals += 1
        self.in_flight += 1
        return Exchange(self, at_s)

    def reading(self, service: ServiceId, *, started_s: float, at_s: float, waiting: int) -> GatewayReading:
        """All of it at one moment."""
        return GatewayReading(
            service=service,
            at_s=at_s,
            started_s=started_s,
            arrivals=self.arrivals,
            finished=self.finished,
            failed=self.failed,
            refused=self.refused,
            waiting=waiting,
            in_flight=self.in_flight,
            judged=self.judged,
            within_slo=self.within_slo,
            ttft=self.ttft.histogram(),
            itl=self.itl.histogram(),
            e2e=self.e2e.histogram(),
        )


class Exchange:
    """One request and its answer. Times in seconds on one clock that never runs back; ends once, in one way."""

    __slots__ = (
        "_ends",
        "_first_s",
        "_held_s",
        "_is_over",
        "_last_s",
        "_meter",
        "_pieces",
        "_received_s",
        "_status",
    )

    def __init__(self, meter: ServiceMeter, received_s: float) -> None:
        self._meter = meter
        self._received_s = received_s
        self._held_s = 0.0
        self._status: int | None = None
        self._ends: tuple[bytes, ...] | None = None
        self._first_s: float | None = None
        self._last_s = received_s
        self._pieces = 0
        self._is_over = False

    def held(self, span_s: float) -> None:
        """No replica could take it for that long."""
        self._held_s += span_s

    def begins(self, *, status: int, media_type: str) -> None:
        """The replica answers."""
        self._status = status
        self._ends = _PIECE_ENDS.get(media_type) if status < 400 else None

    def passes(self, chunk: bytes, at_s: float) -> None:
        """Bytes of the answer's body pass through."""
        if self._ends is None:
            return
        if self._first_s is None:
            self._first_s = at_s
            self._meter.ttft.add(at_s - self._received_s)
        pieces = sum(map(chunk.count, self._ends)) - chunk.endswith(_STREAM_END)
        if pieces > 0:
            self._pieces += pieces
            self._last_s = at_s

    def finish(self, at_s: float) -> None:
        """The answer has passed through whole."""
        if self._status is None or self._status in (429, 503):
            self.refuse()
        elif self._status >= 500:
            self.fail()
        elif not self._is_over:
            self._over()
            self._meter.finished += 1
            if self._status < 400:
                self._judge_answer(at_s)

    def fail(self) -> None:
        """No answer came, or it broke off."""
        if not self._is_over:
            self._over()
            self._meter.failed += 1
            self._meter.judged += 1

    def refuse(self) -> None:
        """It was turned away."""
        if not self._is_over:
            self._over()
            self._meter.refused += 1
            self._meter.judged += 1

    def abandon(self, at_s: float) -> None:
        """The client has gone. Does nothing where the exchange is over."""
        if not self._is_over:
            self._over()
            self._meter.judged += self._broke_threshold(at_s)

    def _over(self) -> None:
        self._is_over = True
        self._meter.in_flight -= 1

    def _judge_answer(self, at_s: float) -> None:
        slo = self._meter.slo
        self._meter.e2e.add(at_s - self._received_s)
        gap_s = self._mean_gap_s()
        if gap_s is not None:
            self._meter.itl.add(gap_s)
        sees_tokens = self._first_s is not None and (slo.ttft_s is not None or slo.itl_s is not None)
        if self._broke_threshold(at_s):
            self._meter.judged += 1
        elif slo.e2e_s is not None or sees_tokens:
            self._meter.judged += 1
            self._meter.within_slo += 1

    def _mean_gap_s(self) -> float | None:
        if self._first_s is None or self._pieces < 2:
            return None
        return (self._last_s - self._first_s) / (self._pieces - 1)

    def _broke_threshold(self, at_s: float) -> bool:
        slo, gap_s = self._meter.slo, self._mean_gap_s()
        if self._first_s is not None:
            to_first_s = self._first_s - self._received_s
        elif self._status is None:  # nothing has come yet
            to_first_s = at_s - self._received_s
        else:  # sent whole: its first token came some time after the request was let through
            to_first_s = self._held_s
        return (
            (slo.ttft_s is not None and to_first_s > slo.ttft_s)
            or (slo.itl_s is not None and gap_s is not None and gap_s > slo.itl_s)
            or (slo.queue_s is not None and self._held_s > slo.queue_s)
            or (slo.e2e_s is not None and at_s - self._received_s > slo.e2e_s)
        )
