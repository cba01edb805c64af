"""Fleets in every state that a page can be in, to be read directly and through Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from adapters.engines.detection import TABLES
from autoscaler.domain.cluster import ClusterSnapshot, Phase, Replica
from autoscaler.domain.reading import EngineReading, Unknown, UnknownReason
from autoscaler.domain.service import ServiceId

SCRAPES = Path(__file__).parents[1] / "fixtures" / "scrapes"
SERVICE = ServiceId("chat")
NAMES = frozenset(name for table in TABLES for name in table.sample_names())
PREFIXES = frozenset(prefix for table in TABLES for prefix in table.prefixes if prefix)
IDLE = (SCRAPES / "vllm_0.32_cpu_idle.prom").read_bytes()
OVERLOADED = (SCRAPES / "vllm_0.32_cpu_overloaded.prom").read_bytes()
PAIR = b"vllm:num_requests_running %d\nvllm:num_requests_waiting %d\n"


def page(running: int, waiting: int, *, first_tokens: int = 0) -> bytes:
    """A small page of vLLM."""
    count = b"vllm:time_to_first_token_seconds_"
    histogram = [
        b'bucket{le="0.5"} %d\n' % first_tokens,
        b'bucket{le="+Inf"} %d\n' % first_tokens,
        b"count %d\n" % first_tokens,
        b"sum %d\n" % first_tokens,
    ]
    return PAIR % (running, waiting) + b"".join(count + line for line in histogram)


@dataclass(frozen=True, slots=True)
class Engine:
    """A page, None where it can't be fetched; and where direct reading gives none, the reasons that fit."""

    page: bytes | None
    reasons: tuple[UnknownReason, ...] = ()


FLEET: Mapping[str, Engine] = {
    "idle": Engine(IDLE),
    "overloaded": Engine(OVERLOADED),
    "SGLang": Engine((SCRAPES / "sglang_0.4_overloaded.prom").read_bytes()),
    "SGLang, parallel": Engine((SCRAPES / "sglang_dp2_tp2.prom").read_bytes()),
    "TGI": Engine((SCRAPES / "tgi_3_overloaded.prom").read_bytes()),
    "TGI before any request": Engine((SCRAPES / "tgi_3_fresh.prom").read_bytes()),
    "Triton": Engine((SCRAPES / "triton_cpu_loaded.prom").read_bytes()),
    "Triton with TensorRT-LLM": Engine((SCRAPES / "triton_trtllm_ensemble.prom").read_bytes()),
    "trtllm-serve": Engine((SCRAPES / "trtllm_serve.prom").read_bytes()),
    "NIM": Engine((SCRAPES / "nim_llama.prom").read_bytes()),
    "Dynamo": Engine((SCRAPES / "dynamo_frontend.prom").read_bytes()),
    "Dynamo before any request": Engine((SCRAPES / "dynamo_frontend_fresh.prom").read_bytes()),
    "small": Engine(page(3, 4, first_tokens=9)),
    "two engines": Engine(
        b"".join(
            b'vllm:num_requests_%s{engine="%d"} %d\n' % (name, engine, 1 + engine)
            for engine in (0, 1)
            for name in (b"running", b"waiting")
        )
    ),
    "repeated over ranks": Engine(
        b'vllm:num_requests_running{tp_rank="0"} 5\nvllm:num_requests_running{tp_rank="1"} 5\n'
        b"vllm:num_requests_waiting 0\n"
    ),
    "not a number": Engine(b"vllm:num_requests_running NaN\nvllm:num_requests_waiting 2\n"),
    "out of range": Engine(b"vllm:num_requests_running -1\nvllm:num_requests_waiting 2e300\n"),
    "an infinite bucket": Engine(PAIR % (1, 1) + b'vllm:time_to_first_token_seconds_bucket{le="+Inf"} +Inf\n'),
    "buckets that sink": Engine(
        PAIR % (1, 1)
        + b"".join(
            b"vllm:time_to_first_token_seconds_%s\n" % line
            for line in (b'bucket{le="1"} 5', b'bucket{le="2"} 4', b'bucket{le="+Inf"} 5', b"count 5", b"sum 5")
        )
    ),
    "labels that the target has too": Engine(
        b'vllm:num_requests_running{job="a",instance="x"} 1\nvllm:num_requests_running{job="b",instance="x"} 2\n'
        b'vllm:num_requests_waiting{pod="other"} 3\n'
    ),
    "labels to be escaped": Engine(
        b'vllm:num_requests_running{model_name="a\\"b\\\\c\\nd"} 1\nvllm:num_requests_waiting{model_name="} 7 {"} 3\n'
    ),
    "an old name": Engine(PAIR % (0, 0) + b"vllm:gpu_cache_usage_perc 0.25\n"),
    "a signal missing": Engine(b"vllm:num_requests_running 1\n", (UnknownReason.MISSING_SERIES,)),
    "runtime alone": Engine(b"python_info 1\nprocess_start_time_seconds 1\n", (UnknownReason.EMPTY_PAGE,)),
    "unreachable": Engine(None, (UnknownReason.UNREACHABLE, UnknownReason.HTTP_ERROR)),
}


def replica(name: str, url: str | None, *, phase: Phase = Phase.READY) -> Replica:
    return Replica(name=name, service=SERVICE, variant="v", phase=phase, created_s=0.0, ready_s=1.0, metrics_url=url)


def snapshot(*replicas: Replica) -> ClusterSnapshot:
    return ClusterSnapshot(at_s=1000.0, devices=(), replicas=replicas, targets=())


def comparable(reading: EngineReading | Unknown) -> EngineReading | str:
    """What must be the same in both ways: all but the moment; of an Unknown, that it is one."""
    return "unknown" if isinstance(reading, Unknown) else replace(reading, at_s=0.0)
