"""The engines that the demo can run on, and for each the service, the load and what is expected of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from autoscaler.domain.service import Engine, StatisticsProtocol
from loadtests.baselines import ReactivePolicy
from loadtests.emulator.batching import EngineLimits, StepCost
from loadtests.emulator.virtual import EngineModel
from loadtests.triton_server import READY_PATH, TimedModel, TritonHome


def _nothing() -> None:
    """Nothing to prepare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoEngine:
    """One kind of engine.

    ``command``, ``env``: what starts a replica, after ``prepare`` has put in place what it needs. ``kind``: whose pages
    it has, and ``statistics`` beside them. ``itl_s`` None: answers come whole, within ``ttft_s``. ``step_time``: the
    terms c, d, e, a for the configuration, None where the controller has to learn them. ``ready_deadline_s``: the first
    replica must be up by then.
    ``load``: options of the harness but the number of requests, which is ``requests``, or else chosen so that the
    busiest ``busiest_s`` seconds bring ``peak_to_capacity`` times what one replica serves.
    ``model``: the emulated engine's own model, from which its capacity is computed. Without one, ``usable`` is taken as
    in SLO of ``full_rps``, which is the most that it serves, or else of what a burst of requests as long as
    ``probe_lengths`` (prompt, output) measures.
    ``devices``: declared ones of which each replica takes one; empty: replicas take none.
    ``reactive``: the policy that the run is compared with, its times squeezed as the trace is.
    """

    name: str
    kind: Engine = Engine.VLLM
    statistics: StatisticsProtocol | None = None
    ready_path: str = "/health"
    prepare: Callable[[], None] = _nothing
    served_model: str
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    max_num_seqs: int
    max_model_len: int
    kv_tokens: int | None
    step_time: tuple[str, str, str, str] | None
    min_replicas: int
    max_replicas: int
    startup_s: float
    ready_deadline_s: float
    interval_s: float
    ttft_s: float
    itl_s: float | None
    required_share: float
    busiest_s: float
    load: Sequence[str]
    requests: int | None = None
    peak_to_capacity: float = 1.0
    model: EngineModel | None = None
    full_rps: float | None = None
    probe_lengths: tuple[str, str] = ("64~0.5", "64~0.5")
    usable: float = 1.0
    devices: Sequence[str] = ()
    reactive: ReactivePolicy


_EMULATED = EngineModel(
    cost=StepCost(base_s=0.040, per_sequence_s=0.001, per_context_token_s=2e-6, per_prefill_token_s=1e-4),
    limits=EngineLimits(max_num_seqs=8, max_num_batched_tokens=2048, kv_tokens=20_000, max_model_len=8192),
)


def emulated() -> DemoEngine:
    """Replicas of the engine emulator: ready in about four seconds, no GPU, a few per cent of a core each.

    The load is a Sunday and a Monday of a conversation service in three minutes, prompts and outputs shortened so that
    two cores can carry every token.
    """
    cost, limits = _EMULATED.cost, _EMULATED.limits
    return DemoEngine(
        name="emulated",
        served_model="emulated",
        command=(
            sys.executable,
            *("-m", "loadtests.engine_emulator", "--port", "{port}", "--model", "{model}"),
            *("--startup-s", "3", "--listen-after-s", "0.5"),
            *("--step-base-ms", f"{cost.base_s * 1e3:g}", "--step-per-seq-ms", f"{cost.per_sequence_s * 1e3:g}"),
            *("--step-per-context-token-us", f"{cost.per_context_token_s * 1e6:g}"),
            *("--step-per-prefill-token-us", f"{cost.per_prefill_token_s * 1e6:g}"),
            *("--max-num-seqs", f"{limits.max_num_seqs}", "--kv-tokens", f"{limits.kv_tokens}"),
            *("--max-num-batched-tokens", f"{limits.max_num_batched_tokens}"),
            *("--max-model-len", f"{limits.max_model_len}"),
        ),
        max_num_seqs=limits.max_num_seqs,
        max_model_len=limits.max_model_len,
        kv_tokens=limits.kv_tokens,
        step_time=("40ms", "1ms", "2us", "100us"),
        min_replicas=2,
        max_replicas=8,
        startup_s=5.0,
        ready_deadline_s=60.0,
        interval_s=1.0,
        ttft_s=2.0,
        itl_s=0.1,
        required_share=0.98,
        busiest_s=10.0,
        load=(
            *("--trace", "azure2024_conv_week", "--from-s", "0", "--until-s", f"{48 * 3600}"),
            *("--duration-s", "180", "--prompt-scale", "0.15", "--output-scale", "0.4"),
            *("--timeout-s", "60", "--drain-s", "30", "--seed", "1"),
        ),
        requests=1500,
        model=_EMULATED,
        reactive=ReactivePolicy(interval_s=1.0, window_s=5.0, down_window_s=15.0),
    )


def vllm(*, python: str, model_dir: str) -> DemoEngine:
    """Real vLLM on a CPU: ``python`` of the environment that has it, and a folder with a tiny model.

    Each replica has one core of its own, as it would have a GPU, so that two serve twice as much as one; what one
    serves is measured first. A replica needs one to two minutes to load, so the trace takes ten.
    """
    return DemoEngine(
        name="vllm",
        served_model="tiny",
        command=(
            *("taskset", "-c", "{devices}", python),
            *("-m", "vllm.entrypoints.openai.api_server", "--model", model_dir, "--served-model-name", "{model}"),
            *("--dtype", "bfloat16", "--max-model-len", "1024", "--max-num-seqs", "4", "--enforce-eager"),
            *("--host", "{host}", "--port", "{port}"),
        ),
        env={
            "HF_HUB_OFFLINE": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "OMP_NUM_THREADS": "1",
        },
        devices=("0", "1"),
        max_num_seqs=4,
        max_model_len=1024,
        kv_tokens=None,
        step_time=None,
        min_replicas=1,
        max_replicas=2,
        startup_s=120.0,
        ready_deadline_s=600.0,
        interval_s=2.0,
        ttft_s=15.0,
        itl_s=0.5,
        required_share=0.9,
        busiest_s=60.0,
        load=(
            *("--trace", "azure2024_conv_week", "--from-s", "0", "--until-s", f"{48 * 3600}"),
            *("--duration-s", "600", "--prompt-scale", "0.03", "--output-scale", "0.6"),
            *("--timeout-s", "300", "--drain-s", "300", "--seed", "1"),
        ),
        peak_to_capacity=1.3,
        probe_lengths=("50~0.8", "64~0.8"),
        usable=0.6,
        reactive=ReactivePolicy(interval_s=2.0, window_s=15.0, down_window_s=60.0),
    )


_TIMED = TimedModel(name="timed", alpha_s=0.4, beta_s=0.1, largest=8)


def triton(*, home: TritonHome, repository: Path) -> DemoEngine:
    """Real Triton servers with a model that sleeps 0.4 s and 0.1 s an item: 6.7 requests/s in batches of 8, and no less
    where they share a core.

    The controller is told so, as it is of the emulated engines, and fits the two terms to what it sees from then on.
    Ready in about two seconds.
    """
    return DemoEngine(
        name="triton",
        kind=Engine.TRITON,
        statistics=StatisticsProtocol.GRPC,
        ready_path=READY_PATH,
        prepare=partial(_TIMED.write, repository),
        served_model=_TIMED.name,
        command=home.command(repository),
        env=home.env(),
        max_num_seqs=_TIMED.largest,
        max_model_len=2,
        kv_tokens=None,
        step_time=(f"{_TIMED.alpha_s * 1e3:g}ms", f"{_TIMED.beta_s * 1e3:g}ms", "0s", "0s"),
        min_replicas=2,
        max_replicas=8,
        startup_s=5.0,
        ready_deadline_s=60.0,
        interval_s=1.0,
        ttft_s=3.0,
        itl_s=None,
        required_share=0.95,
        busiest_s=10.0,
        load=(
            *("--trace", "azure2024_conv_week", "--from-s", "0", "--until-s", f"{48 * 3600}"),
            *("--duration-s", "240", "--prompt-scale", "1e-6", "--output-scale", "1e-6"),
            *("--timeout-s", "60", "--drain-s", "30", "--seed", "1"),
        ),
        requests=4000,
        full_rps=_TIMED.full_rps,
        usable=0.9,
        reactive=ReactivePolicy(interval_s=1.0, window_s=5.0, down_window_s=15.0),
    )
