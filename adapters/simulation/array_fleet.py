"""What the compiled fleets have in common: rows of arrays for replicas that come and go, and the gateway."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod

import numpy as np

from adapters.simulation.kernels import layout
from adapters.simulation.kernels.fleet import lose, refresh, serve
from adapters.simulation.kernels.layout import BLOCK, LOAD, NEVER, NEXT_EVENT, NONE, SHUT, FleetArrays, Integers
from adapters.simulation.requests import Requests
from adapters.simulation.serving import BucketCounts, GatewayPage, Outcome, Outcomes, ReplicaPage, Router
from adapters.simulation.step_times import PICOSECONDS, picoseconds
from autoscaler.domain.service import Slo

# fmt: off
# vLLM's (vllm-project/vllm, vllm/v1/metrics/loggers.py).
TTFT_BOUNDS_S = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
)
ITL_BOUNDS_S = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)
REQUEST_BOUNDS_S = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)
LENGTH_BOUNDS = tuple(float(step * 10**power) for power in range(6) for step in (1, 2, 5))
# The gateway's: finer at the low end of the whole time, and with the thresholds of the SLO among them.
GATE_E2E_BOUNDS_S = (0.01, 0.05, 0.1, 0.2, *REQUEST_BOUNDS_S)
# fmt: on

NANOSECONDS = PICOSECONDS // layout.NANOSECOND
_UNITS = (*[NANOSECONDS] * 5, 1, 1)  # of the sums of a replica's histograms
_LINE = 8  # numbers in a cache line
_LONGEST_S = 90 * 86_400.0  # well within 64 bits of picoseconds


class ArrayFleet(ABC):
    """A ``ServingFleet`` on the compiled kernels; ``page`` is what the model of a replica makes of its counters.

    ``seats``: the most requests that a replica works on at once. At the gateway at most ``held_limit`` requests are
    held for at most ``held_s`` each.
    """

    def __init__(
        self, requests: Requests, *, slo: Slo, router: Router, held_limit: int, held_s: float, seats: int
    ) -> None:
        if held_limit < 0 or not (math.isfinite(held_s) and 0 <= held_s <= _LONGEST_S):
            raise ValueError(f"held_limit and held_s must be finite and at least 0, got {held_limit} and {held_s}")
        if requests.duration_s > _LONGEST_S:
            raise ValueError(f"a run lasts at most {_LONGEST_S:g} s, got {requests.duration_s:g} s")
        self._bounds = (
            *(TTFT_BOUNDS_S, ITL_BOUNDS_S, REQUEST_BOUNDS_S, REQUEST_BOUNDS_S, ITL_BOUNDS_S),
            *(LENGTH_BOUNDS, LENGTH_BOUNDS),
            _with_threshold(TTFT_BOUNDS_S, slo.ttft_s),
            _with_threshold(ITL_BOUNDS_S, slo.itl_s),
            _with_threshold(GATE_E2E_BOUNDS_S, slo.e2e_s),
        )
        engine = np.zeros(layout.ENGINE_COLUMNS, dtype=np.int64)
        engine[layout.ROUTER] = router
        engine[layout.HELD_LIMIT] = held_limit
        engine[layout.HELD_PS] = picoseconds(held_s)
        for column, threshold_s in (
            (layout.SLO_TTFT, slo.ttft_s),
            (layout.SLO_ITL, slo.itl_s),
            (layout.SLO_E2E, slo.e2e_s),
        ):
            engine[column] = NEVER if threshold_s is None else picoseconds(min(threshold_s, _LONGEST_S))
        gate = np.zeros(layout.GATE_COLUMNS, dtype=np.int64)
        gate[[layout.ROUND_ROBIN_LAST, layout.GATE_HEAD, layout.GATE_TAIL]] = NONE
        self._arrays = FleetArrays(
            engine=engine,
            bounds=_bounds_array(self._bounds),
            asked=_asked(requests),
            got=_nothing_got(len(requests)),
            state=_vacant_rows(BLOCK),
            slots=np.zeros((BLOCK, seats), dtype=np.int64),
            events=_vacant_events(BLOCK),
            blocks=_vacant_events(1),
            gate=gate,
            # One boundary adds two entries for each seat at most.
            log=np.zeros(layout.LOG + 2 * seats, dtype=np.int64),
        )
        self._indices: list[int] = []  # of the replicas in the rows
        self._rows: dict[int, int] = {}
        self._added = itertools.count()

    def add(self) -> int:
        """See ``ServingFleet``."""
        replica, row = next(self._added), len(self._indices)
        if row == len(self._arrays.state):
            self._grow(row)
        self._indices.append(replica)
        self._rows[replica] = row
        return replica

    def open(self, replica: int) -> None:
        """See ``ServingFleet``."""
        row, events = self._row(replica), self._arrays.events
        if events[LOAD, row] >= SHUT:
            events[LOAD, row] -= SHUT
            self._arrays.state[row, layout.CLOSED_AT] = NONE
            refresh(self._arrays, row // BLOCK)

    def close(self, replica: int) -> None:
        """See ``ServingFleet``."""
        row, events = self._row(replica), self._arrays.events
        if events[LOAD, row] < SHUT:
            events[LOAD, row] += SHUT
            refresh(self._arrays, row // BLOCK)
        if self._arrays.state[row, layout.CLOSED_AT] == NONE:
            self._arrays.state[row, layout.CLOSED_AT] = self._arrays.gate[layout.NOW]

    def remove(self, replica: int) -> None:
        """See ``ServingFleet``."""
        row, arrays = self._row(replica), self._arrays
        lose(arrays, row)
        last = len(self._indices) - 1
        # Rows stay in the order of indices, so that ties go to the lowest.
        for rows in (arrays.state, arrays.slots, arrays.events.T):
            rows[row:last] = rows[row + 1 : last + 1].copy()
        arrays.state[last] = _vacant_rows(1)[0]
        arrays.events[:, last] = _vacant_events(1)[:, 0]
        for block in range(row // BLOCK, last // BLOCK + 1):
            refresh(arrays, block)
        if arrays.gate[layout.ROUND_ROBIN_LAST] >= row:
            arrays.gate[layout.ROUND_ROBIN_LAST] -= 1
        del self._indices[row]
        self._rows = {index: place for place, index in enumerate(self._indices)}

    def advance(self, until_s: float) -> None:
        """See ``ServingFleet``."""
        if not (math.isfinite(until_s) and 0 <= until_s <= _LONGEST_S):
            raise ValueError(f"a time of the run lies in [0, {_LONGEST_S:g}] s, got {until_s}")
        now, until = int(self._arrays.gate[layout.NOW]), picoseconds(until_s)
        if until < now:
            raise ValueError(f"time never goes back: it is {now / PICOSECONDS} s, got {until_s}")
        serve(self._arrays, until)

    def in_flight(self, replica: int) -> int:
        """See ``ServingFleet``."""
        return int(self._arrays.events[LOAD, self._row(replica)]) % SHUT

    def empty_since_s(self, replica: int) -> float | None:
        """See ``ServingFleet``."""
        state = self._arrays.state[self._row(replica)]
        if self.in_flight(replica) or state[layout.CLOSED_AT] == NONE:
            return None
        return int(max(state[layout.CLOSED_AT], state[layout.LATEST_FINISH])) / PICOSECONDS

    @abstractmethod
    def page(self, replica: int) -> ReplicaPage:
        """See ``ServingFleet``."""

    def gateway(self) -> GatewayPage:
        """See ``ServingFleet``."""
        gate = self._arrays.gate.tolist()
        spans = self._arrays.gate[16:].reshape(-1, layout.SPAN)
        finished, failed, refused = gate[layout.FINISHED], gate[layout.FAILED], gate[layout.REFUSED]
        ttft, itl, e2e = (
            self._histogram(kind, spans[kind - layout.GATE_TTFT], gate[layout.GATE_SUMS + kind] / NANOSECONDS)
            for kind in (layout.GATE_TTFT, layout.GATE_ITL, layout.GATE_E2E)
        )
        return GatewayPage(
            arrivals=gate[layout.ARRIVALS],
            finished=finished,
            failed=failed,
            refused=refused,
            waiting=gate[layout.HELD],
            in_flight=gate[layout.ARRIVALS] - finished - failed - refused,
            judged=gate[layout.JUDGED],
            within_slo=gate[layout.WITHIN_SLO],
            ttft=ttft if self._knows_tokens else None,
            itl=itl if self._knows_tokens else None,
            e2e=e2e,
        )

    def outcomes(self) -> Outcomes:
        """See ``ServingFleet``."""
        at, got = self._arrays.asked[:, layout.AT], self._arrays.got
        first, last = got[:, layout.FIRST], got[:, layout.LAST]
        gaps = self._arrays.asked[:, layout.OUTPUT] - 1
        is_finished = got[:, layout.CODE] == Outcome.FINISHED
        has_tokens = is_finished & (first != NONE)
        scheduled = got[:, layout.SCHEDULED]
        return Outcomes(
            ttft_s=np.where(first != NONE, (first - at) / PICOSECONDS, np.nan),
            itl_s=np.where(has_tokens, (last - first) / (np.maximum(gaps, 1) * PICOSECONDS), np.nan),
            queue_s=np.where(scheduled != NONE, (scheduled - at) / PICOSECONDS, np.nan),
            e2e_s=np.where(is_finished, (last - at) / PICOSECONDS, np.nan),
            finish_s=np.where(is_finished, last / PICOSECONDS, np.nan),
            code=got[:, layout.CODE].astype(np.uint8),
            preemptions=got[:, layout.PREEMPTIONS].copy(),
        )

    @property
    def _knows_tokens(self) -> bool:
        return bool(self._arrays.engine[layout.MODEL] == layout.CONTINUOUS)

    def _row(self, replica: int) -> int:
        try:
            return self._rows[replica]
        except KeyError:
            raise ValueError(f"there is no replica {replica}: it was removed, or never added") from None

    def _replica_histograms(self, row: int) -> list[BucketCounts]:
        state = self._arrays.state[row]
        spans = state[layout.REPLICA_COLUMNS :].reshape(-1, layout.SPAN)
        sums = state[layout.SUMS : layout.SUMS + layout.REPLICA_KINDS].tolist()
        # All at once, as the floats that readings are made of: pages are what runs with a controller make most of.
        reached = np.cumsum(spans, axis=1, dtype=np.float64).tolist()
        return [
            BucketCounts(bounds, tuple(counts[: len(bounds)]), int(counts[len(bounds)]), total / unit)
            for bounds, counts, total, unit in zip(self._bounds, reached, sums, _UNITS, strict=False)
        ]

    def _histogram(self, kind: int, span: Integers, total: float) -> BucketCounts:
        bounds = self._bounds[kind]
        counts = np.cumsum(span[: len(bounds) + 1], dtype=np.float64)
        return BucketCounts(bounds, counts[:-1], int(counts[-1]), total)

    def _grow(self, rows: int) -> None:
        """Twice as many rows."""
        old, state = self._arrays, _vacant_rows(2 * rows)
        state[:rows] = old.state
        self._arrays = old._replace(
            state=state,
            slots=np.concatenate([old.slots, np.zeros_like(old.slots)]),
            events=np.concatenate([old.events, _vacant_events(rows)], axis=1),
            blocks=np.concatenate([old.blocks, _vacant_events(rows // BLOCK)], axis=1),
        )


def _with_threshold(bounds: tuple[float, ...], threshold: float | None) -> tuple[float, ...]:
    return bounds if threshold is None else tuple(sorted({*bounds, threshold}))


def _bounds_array(kinds: tuple[tuple[float, ...], ...]) -> Integers:
    """Bounds of times in picoseconds, of lengths in tokens."""
    bounds = np.full((layout.KINDS, layout.SPAN), NEVER, dtype=np.int64)
    for kind, values in enumerate(kinds):
        is_length = kind in (layout.PROMPT_LENGTH, layout.OUTPUT_LENGTH)
        bounds[kind, : len(values)] = [int(value) if is_length else picoseconds(value) for value in values]
    return bounds


def _asked(requests: Requests) -> Integers:
    asked = _aligned(len(requests), layout.ASKED_COLUMNS)
    asked[:, layout.AT] = np.rint(requests.at_s * PICOSECONDS)
    asked[:, layout.PROMPT] = requests.prompt_tokens
    asked[:, layout.OUTPUT] = requests.output_tokens
    asked[:, layout.CACHED] = requests.cached_tokens
    return asked


def _aligned(rows: int, columns: int) -> Integers:
    """An array that begins with a cache line, so that a row of whole lines takes no more of them."""
    flat = np.empty(rows * columns + _LINE, dtype=np.int64)
    first = -(flat.ctypes.data // 8) % _LINE
    return flat[first : first + rows * columns].reshape(rows, columns)


def _nothing_got(requests: int) -> Integers:
    got = _aligned(requests, layout.GOT_COLUMNS)
    got[:] = NONE
    got[:, [layout.GENERATED, layout.PREEMPTIONS]] = 0
    got[:, layout.CODE] = Outcome.UNFINISHED
    return got


def _vacant_rows(rows: int) -> Integers:
    state = _aligned(rows, layout.STATE_COLUMNS)
    state[:] = 0
    state[:, [layout.HEAD, layout.TAIL, layout.PARTIAL, layout.CLOSED_AT, layout.LATEST_FINISH]] = NONE
    state[:, layout.NEXT_FINISH] = NEVER
    return state


def _vacant_events(rows: int) -> Integers:
    events = np.empty((2, rows), dtype=np.int64)
    events[NEXT_EVENT] = NEVER
    events[LOAD] = SHUT
    return events
