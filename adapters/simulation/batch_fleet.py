"""Replicas with dynamic batching, as Triton serves: one batch at a time, gathered for a limited delay."""

from __future__ import annotations

import math
from dataclasses import dataclass

from adapters.simulation.array_fleet import ArrayFleet
from adapters.simulation.kernels import layout
from adapters.simulation.requests import Requests
from adapters.simulation.serving import ReplicaPage, Router
from adapters.simulation.step_times import PICOSECONDS, picoseconds
from autoscaler.domain.service import Slo

_LONGEST_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchServer:
    """A batch of n requests takes ``base_s + per_request_s * n``; at most ``max_batch`` are taken at once.

    A batch that isn't full begins when its oldest request has waited ``max_delay_s`` and the server is free.
    """

    base_s: float
    per_request_s: float
    max_batch: int
    max_delay_s: float = 0.0

    def __post_init__(self) -> None:
        spans = (self.base_s, self.per_request_s, self.max_delay_s)
        if any(not math.isfinite(span) or not 0 <= span <= _LONGEST_S for span in spans):
            raise ValueError(f"times of a batch server must lie in [0, {_LONGEST_S:g}] s, got {self}")
        if picoseconds(self.base_s) + picoseconds(self.per_request_s) < 1:
            raise ValueError("a batch must take at least a picosecond")
        if self.max_batch < 1:
            raise ValueError(f"max_batch must be at least 1, got {self.max_batch}")


class BatchFleet(ArrayFleet):
    """A ``ServingFleet`` of batch servers; the rules are in ``kernels.batches``. It knows no tokens, so an SLO on
    them is refused with ValueError. The gateway judges the whole time alone.
    """

    def __init__(
        self,
        requests: Requests,
        *,
        server: BatchServer,
        slo: Slo,
        router: Router = Router.LEAST_IN_FLIGHT,
        held_limit: int = 1000,
        held_s: float = 60.0,
    ) -> None:
        if slo.ttft_s is not None or slo.itl_s is not None:
            raise ValueError("a batch server has no tokens: an SLO on ttft_s or itl_s can't be met")
        super().__init__(requests, slo=slo, router=router, held_limit=held_limit, held_s=held_s, seats=server.max_batch)
        engine = self._arrays.engine
        engine[layout.MODEL] = layout.DYNAMIC
        engine[layout.C] = picoseconds(server.base_s)
        engine[layout.D] = picoseconds(server.per_request_s)
        engine[layout.MAX_BATCH] = server.max_batch
        engine[layout.MAX_DELAY] = picoseconds(server.max_delay_s)
        engine[layout.KV_TOKENS] = layout.NEVER

    def page(self, replica: int) -> ReplicaPage:
        """See ``ServingFleet``."""
        row = self._row(replica)
        state = self._arrays.state[row, : layout.REPLICA_COLUMNS].tolist()
        histograms = self._replica_histograms(row)
        return ReplicaPage(
            waiting=state[layout.WAITING],
            running=state[layout.DECODING],
            arrived=state[layout.ARRIVED],
            completed=state[layout.COMPLETED],
            e2e=histograms[layout.E2E],
            queue_time=histograms[layout.QUEUE],
            exec_count=state[layout.EXECUTIONS],
            exec_items=state[layout.ITEMS],
            exec_sum_s=state[layout.EXECUTION_NS] * layout.NANOSECOND / PICOSECONDS,
        )
