"""Replicas with continuous batching, as vLLM serves: prefill in chunks, a KV limit with preemption, prefix hits."""

from __future__ import annotations

from adapters.simulation.array_fleet import ArrayFleet
from adapters.simulation.kernels import layout
from adapters.simulation.requests import Requests
from adapters.simulation.serving import ReplicaPage, Router
from adapters.simulation.step_times import EngineShape, StepTimes
from autoscaler.domain.service import Slo


class EngineFleet(ArrayFleet):
    """A ``ServingFleet`` of engines; the rules of a step are in ``kernels.stretches``.

    A request of more prompt and output tokens than the KV cache holds is refused. A page counts the steps that have
    ended by the last ``advance``.
    """

    def __init__(
        self,
        requests: Requests,
        *,
        times: StepTimes,
        shape: EngineShape,
        slo: Slo,
        router: Router = Router.LEAST_IN_FLIGHT,
        held_limit: int = 1000,
        held_s: float = 60.0,
    ) -> None:
        super().__init__(
            requests, slo=slo, router=router, held_limit=held_limit, held_s=held_s, seats=shape.max_num_seqs
        )
        engine = self._arrays.engine
        engine[layout.MODEL] = layout.CONTINUOUS
        engine[[layout.C, layout.D, layout.E, layout.A]] = times.c, times.d, times.e, times.a
        engine[layout.KV_TOKENS] = shape.kv_tokens
        engine[layout.CHUNK_TOKENS] = shape.chunk_tokens
        engine[layout.MAX_SEQS] = shape.max_num_seqs

    def page(self, replica: int) -> ReplicaPage:
        """See ``ServingFleet``."""
        row = self._row(replica)
        state = self._arrays.state[row, : layout.REPLICA_COLUMNS].tolist()
        ttft, itl, e2e, queue_time, request_itl, prompt_length, output_length = self._replica_histograms(row)
        is_prefilling = state[layout.PARTIAL] != layout.NONE
        return ReplicaPage(
            waiting=state[layout.WAITING],
            running=state[layout.DECODING] + state[layout.COMPLETING] + is_prefilling,
            arrived=state[layout.ARRIVED],
            completed=state[layout.COMPLETED],
            kv_used_tokens=state[layout.USED],
            kv_capacity_tokens=int(self._arrays.engine[layout.KV_TOKENS]),
            first_tokens=state[layout.FIRST_TOKENS],
            prompt_tokens=state[layout.PROMPT_TOKENS],
            generation_tokens=state[layout.TOKENS],
            preemptions=state[layout.PREEMPTED],
            steps=state[layout.STEP],
            ttft=ttft,
            itl=itl,
            e2e=e2e,
            queue_time=queue_time,
            request_itl=request_itl,
            prompt_length=prompt_length,
            output_length=output_length,
        )
