"""What a rival sees of a fluid run: curves of arrivals and of what was served, second by second."""

from __future__ import annotations

import math
from collections.abc import Callable, MutableSequence
from typing import NamedTuple, cast

import numba
import numpy as np
from numpy.typing import NDArray

from autoscaler.domain.reading import Measured, Unknown, UnknownReason
from loadtests.rivals.seen import Facts, Floats, PerReplica

# Up to this many steps, plain Python is done before arrays are handed to compiled code.
_FEW_STEPS = 4
_TOO_EARLY = Unknown(UnknownReason.WARMING_UP, "nothing has been measured yet")
_NO_TOKENS = Unknown(UnknownReason.NOT_EXPORTED, "the fluid model has no tokens")
_IDLE = Unknown(UnknownReason.NO_OBSERVATIONS, "nothing was served")


class Curves(NamedTuple):
    """Cumulative ``arrived`` and ``served``, the sum of ``served`` so far, ``replicas`` that served each second."""

    arrived: Floats
    served: Floats
    served_sum: Floats
    replicas: Floats


def _drain(curves: Curves, begin: int, end: int, ready: int, rate: float) -> None:
    arrived, served, summed, replicas = curves
    for t in range(begin, end):
        served[t + 1] = min(arrived[t + 1], served[t] + ready * rate)
        summed[t + 1] = summed[t] + served[t + 1]
        replicas[t + 1] = ready


_drain_fast: Callable[[Curves, int, int, int, float], None] = numba.njit(cache=True)(_drain)


def _numbers(curve: Floats) -> MutableSequence[float]:
    # A memoryview gives plain numbers several times faster than an array does.
    return cast("MutableSequence[float]", curve.data)


class FluidView:
    """The run so far, as a ``Seen``. Times are whole seconds; element t of a curve is the state at t.

    A request is in flight from its arrival until ``facts.service_s`` after it was served. ``lag_s``: age of metrics.
    ``sample_s``: between samples of a gauge, whose mean over a window is that of its samples.
    """

    def __init__(
        self, counts: NDArray[np.int64], facts: Facts, *, lag_s: float, ready: int, sample_s: float = 1.0
    ) -> None:
        self.arrived: Floats = np.concatenate([[0.0], np.cumsum(counts, dtype=np.float64)])
        self.served: Floats = np.zeros(len(counts) + 1)
        self.replicas: Floats = np.full(len(counts) + 1, float(ready))
        served_sum: Floats = np.zeros(len(counts) + 1)
        self._curves = Curves(self.arrived, self.served, served_sum, self.replicas)
        self._a, self._s = _numbers(self.arrived), _numbers(self.served)
        self._as, self._ss, self._r = _numbers(np.cumsum(self.arrived)), _numbers(served_sum), _numbers(self.replicas)
        self._facts = facts
        self._service = round(facts.service_s)
        self._lag = math.ceil(lag_s)
        self._sample = max(1, round(sample_s))
        kv_tokens = facts.kv_capacity_tokens
        tokens = facts.prompt_tokens + facts.output_tokens / 2
        self._kv_each = math.nan if isinstance(kv_tokens, Unknown) else tokens / kv_tokens
        self._now = 0
        self.now_s = 0.0
        self.ready = self.desired = ready
        self.starting = 0

    def advance(self, until: int) -> None:
        """Serve with the present ready replicas up to that second."""
        if until > self._now:
            if until - self._now <= _FEW_STEPS:
                self._drain_few(until)
            else:
                _drain_fast(self._curves, self._now, until, self.ready, self._facts.capacity_rps)
            self._now, self.now_s = until, float(until)

    def _drain_few(self, until: int) -> None:
        room = self.ready * self._facts.capacity_rps
        arrived, served, summed, replicas = self._a, self._s, self._ss, self._r
        done, total = served[self._now], summed[self._now]
        for t in range(self._now + 1, until + 1):
            done = min(arrived[t], done + room)
            total += done
            served[t], summed[t], replicas[t] = done, total, self.ready

    def rate_rps(self, window_s: float) -> Measured:
        """Arrivals per second over the window."""
        end = self._now - self._lag
        begin = max(0, end - int(window_s))
        return (self._a[end] - self._a[begin]) / (end - begin) if end > begin else _TOO_EARLY

    def in_flight(self, window_s: float) -> Measured:
        """Waiting and served for less than the service time."""
        return self._mean(window_s, self._service)

    def waiting(self, window_s: float) -> Measured:
        """In the queue."""
        return self._mean(window_s, 0)

    def held(self) -> Measured:
        """All that wait while nothing is ready."""
        return 0.0 if self.ready else self.waiting(0.0)

    def per_replica(self, window_s: float) -> PerReplica:
        """All ready replicas are alike."""
        end = self._now - self._lag
        if end < 0 or not self.ready:
            nothing = np.full(self.ready, math.nan)
            return PerReplica(nothing, nothing, nothing)
        begin = max(0, end - int(window_s))
        if begin == end:
            replicas = max(1.0, float(self.replicas[end]))
            waiting = (self._a[end] - self._s[end]) / replicas
            running = (self._s[end] - self._s[max(0, end - self._service)]) / replicas
        else:
            among = np.maximum(1.0, self.replicas[begin + 1 : end + 1])
            done = self.served[begin + 1 : end + 1]
            earlier = self.served[np.maximum(0, np.arange(begin + 1, end + 1) - self._service)]
            waiting = float(((self.arrived[begin + 1 : end + 1] - done) / among).max())
            running = float(((done - earlier) / among).max())
        return PerReplica(
            running=np.full(self.ready, running),
            waiting=np.full(self.ready, waiting),
            kv_fraction=np.full(self.ready, min(1.0, running * self._kv_each)),
        )

    def ttft_s(self, window_s: float) -> Measured:
        """Mean wait, by Little's law."""
        end = self._now - self._lag
        begin = max(0, end - int(window_s))
        waiting = self.waiting(window_s)
        if isinstance(waiting, Unknown) or end <= begin:
            return _TOO_EARLY
        served = self._s[end] - self._s[begin]
        return waiting * (end - begin) / served if served > 0 else _IDLE

    def itl_s(self, window_s: float) -> Measured:
        """Not modelled."""
        del window_s
        return _NO_TOKENS

    def prompt_tokens(self, window_s: float) -> Measured:
        """The workload's mean."""
        del window_s
        return self._facts.prompt_tokens

    def output_tokens(self, window_s: float) -> Measured:
        """The workload's mean."""
        del window_s
        return self._facts.output_tokens

    def _mean(self, window_s: float, delay: int) -> Measured:
        """Of arrivals so far less those served ``delay`` seconds ago, over the samples of the window."""
        end = self._now - self._lag
        if end < 0:
            return _TOO_EARLY
        if window_s <= self._sample:
            return self._a[end] - self._s[max(0, end - delay)]
        begin = max(0, end - int(window_s))
        if end == begin:
            return _TOO_EARLY
        if self._sample > 1:
            times = range(end, max(-1, end - int(window_s)), -self._sample)
            return sum([self._a[t] - self._s[max(0, t - delay)] for t in times]) / len(times)
        came = self._as[end] - self._as[begin]
        went = self._ss[max(0, end - delay)] - self._ss[max(0, begin - delay)]
        return (came - went) / (end - begin)
