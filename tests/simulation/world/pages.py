"""Text pages with given numbers, as vLLM 0.32 and Triton write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from adapters.simulation.serving import BucketCounts, ReplicaPage

_LABELS = {"engine": "0", "model_name": "m"}


def vllm_page(page: ReplicaPage, *, started_s: float, cpu_s: float) -> bytes:
    """What vLLM's server would show of these numbers; families that the model does not know are left out."""
    lines: list[str] = []
    gauges: list[tuple[str, float | None, Mapping[str, str]]] = [
        ("num_requests_running", page.running, _LABELS),
        ("num_requests_waiting", page.waiting, _LABELS),
    ]
    if page.kv_capacity_tokens is not None and page.kv_used_tokens is not None:
        gauges.append(("kv_cache_usage_perc", page.kv_used_tokens / page.kv_capacity_tokens, _LABELS))
        config = {"block_size": "1", "engine": "0", "kv_cache_size_tokens": f"{page.kv_capacity_tokens}"}
        gauges.append(("cache_config_info", 1.0, config))
    for name, value, labels in gauges:
        lines += _family(f"vllm:{name}", "gauge", {"": value}, labels)
    reasons = {"stop": page.completed, "length": 0.0}
    lines.append("# TYPE vllm:request_success_total counter")
    lines += [_sample("vllm:request_success_total", {**_LABELS, "finished_reason": r}, v) for r, v in reasons.items()]
    lines += _family("vllm:admission_rejections_total", "counter", {"": 0.0}, {"model_name": "m", "reason": "queue"})
    for name, count in (
        ("num_preemptions_total", page.preemptions),
        ("prompt_tokens_total", page.prompt_tokens),
        ("generation_tokens_total", page.generation_tokens),
    ):
        if count is not None:
            lines += _family(f"vllm:{name}", "counter", {"": count}, _LABELS)
    for name, counts in (
        ("time_to_first_token_seconds", page.ttft),
        ("inter_token_latency_seconds", page.itl),
        ("request_time_per_output_token_seconds", page.request_itl),
        ("e2e_request_latency_seconds", page.e2e),
        ("request_queue_time_seconds", page.queue_time),
        ("request_prompt_tokens", page.prompt_length),
        ("request_generation_tokens", page.output_length),
    ):
        if counts is not None:
            lines += _histogram(f"vllm:{name}", counts)
    lines += _family("process_start_time_seconds", "gauge", {"": started_s}, {})
    lines += _family("process_cpu_seconds_total", "counter", {"": cpu_s}, {})
    return ("\n".join(lines) + "\n").encode()


def triton_page(page: ReplicaPage) -> bytes:
    """What Triton would show of these numbers."""
    assert page.e2e is not None
    assert page.queue_time is not None
    assert page.exec_sum_s is not None
    labels = {"model": "m", "version": "1"}
    lines: list[str] = []
    for name, value in (
        ("request_success", page.completed),
        ("count", page.exec_items),
        ("exec_count", page.exec_count),
        ("request_duration_us", page.e2e.total * 1e6),
        ("queue_duration_us", page.queue_time.total * 1e6),
        ("compute_input_duration_us", 0.0),
        ("compute_infer_duration_us", page.exec_sum_s * 1e6),
        ("compute_output_duration_us", 0.0),
    ):
        lines += _family(f"nv_inference_{name}", "counter", {"": value}, labels)
    lines.append("# TYPE nv_inference_request_failure counter")
    lines += [
        _sample("nv_inference_request_failure", {**labels, "reason": reason}, 0.0) for reason in ("OTHER", "REJECTED")
    ]
    lines += _family("nv_inference_pending_request_count", "gauge", {"": page.waiting}, labels)
    return ("\n".join(lines) + "\n").encode()


def _family(name: str, kind: str, values: Mapping[str, float | None], labels: Mapping[str, str]) -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    for suffix, value in values.items():
        assert value is not None
        yield _sample(name + suffix, labels, value)


def _histogram(name: str, counts: BucketCounts) -> Iterator[str]:
    yield f"# TYPE {name} histogram"
    for bound, count in zip(counts.bounds, counts.histogram().counts, strict=True):
        yield _sample(f"{name}_bucket", {**_LABELS, "le": repr(float(bound))}, count)
    yield _sample(f"{name}_bucket", {**_LABELS, "le": "+Inf"}, counts.count)
    yield _sample(f"{name}_count", _LABELS, counts.count)
    yield _sample(f"{name}_sum", _LABELS, counts.total)


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    inside = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {float(value)!r}" if inside else f"{name} {float(value)!r}"
