"""The emulator's metrics page against a page of a real server, and its values against a course worked by hand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from loadtests.emulator.batching import ContinuousBatching, EngineLimits, Sequence, StepCost
from loadtests.emulator.page import EnginePage, length_bounds, with_not_a_number, without_family

REAL_PAGE = Path(__file__).parents[1] / "fixtures" / "scrapes" / "vllm_0.32_cpu_idle.prom"
MODEL = "org/tiny"
Shape = dict[str, tuple[str, frozenset[tuple[str, tuple[tuple[str, str], ...]]]]]


def limits() -> EngineLimits:
    return EngineLimits(max_num_seqs=2, max_num_batched_tokens=100, kv_tokens=2048, max_model_len=2048)


def shape(families: Iterable[Metric]) -> Shape:
    """Type, sample names and labels of each family, without values."""
    return {
        family.name: (
            family.type,
            frozenset((sample.name, tuple(sorted(sample.labels.items()))) for sample in family.samples),
        )
        for family in families
    }


def values(page: bytes) -> dict[str, float]:
    """Every sample by its name and the labels that tell it from its family's other ones."""
    found = {}
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            labels = [f"{k}={v}" for k, v in sorted(sample.labels.items()) if k not in ("engine", "model_name")]
            found[",".join([sample.name, *labels])] = sample.value
    return found


def test_families_labels_and_buckets_are_those_of_a_real_server() -> None:
    real = shape(text_string_to_metric_families(REAL_PAGE.read_text()))
    ours = shape(text_string_to_metric_families(EnginePage(model=MODEL, limits=limits()).render().decode()))
    assert ours.keys() == real.keys()
    different = {name for name in real if real[name] != ours[name]}
    # One carries the settings of that very server as labels, the other its Python's version.
    assert different - {"python_info"} == {"vllm:cache_config_info"}


def test_length_bounds_end_at_the_model_length() -> None:
    assert length_bounds(2048) == (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)


def test_values_follow_a_course_worked_by_hand() -> None:
    """Steps of 1 s; room for two of three requests: prompts 30, 40 and 5, outputs 3, 2 and 1, all at 0 s.

    1 s: two first tokens. 2 s: second tokens, the second request has finished. 3 s: the first one has finished with its
    third token, and the third request, scheduled at 2 s, has its only token.
    """
    cost = StepCost(base_s=1.0, per_sequence_s=0, per_context_token_s=0, per_prefill_token_s=0)
    engine = ContinuousBatching(cost=cost, limits=limits())
    page = EnginePage(model=MODEL, limits=limits())
    for prompt, output in ((30, 3), (40, 2), (5, 1)):
        engine.submit(Sequence(prompt_tokens=prompt, output_tokens=output, arrived_s=0.0))

    def step(begin_s: float) -> None:
        duration_s = engine.begin_step(begin_s)
        assert duration_s == 1.0
        result = engine.end_step(begin_s + duration_s)
        page.count_step(result, preemptions=0)
        for sequence in result.finished:
            page.count_finish(sequence, reason="length", max_tokens=sequence.output_tokens)
        page.show_load(running=engine.running, waiting=engine.waiting, kv_used_tokens=engine.kv_used_tokens)

    step(0.0)
    first = values(page.render())
    assert first["vllm:num_requests_running"] == 2
    assert first["vllm:num_requests_waiting"] == 1
    assert first["vllm:num_requests_waiting_by_reason,reason=capacity"] == 1
    assert first["vllm:num_requests_waiting_by_reason,reason=deferred"] == 0
    assert first["vllm:kv_cache_usage_perc"] == pytest.approx((31 + 41) / 2048)
    assert first["vllm:time_to_first_token_seconds_count"] == 2
    assert first["vllm:time_to_first_token_seconds_bucket,le=0.75"] == 0
    assert first["vllm:time_to_first_token_seconds_bucket,le=1.0"] == 2
    assert first["vllm:prompt_tokens_total"] == 70
    assert first["vllm:generation_tokens_total"] == 2
    assert first["vllm:iteration_tokens_total_sum"] == 70
    # As in a real server at the onset of a queue: nothing has finished, so these still say nothing.
    assert first["vllm:e2e_request_latency_seconds_count"] == 0
    assert first["vllm:request_queue_time_seconds_count"] == 0
    assert first["vllm:request_success_total,finished_reason=length"] == 0

    step(1.0)
    step(2.0)
    last = values(page.render())
    assert last["vllm:num_requests_running"] == last["vllm:num_requests_waiting"] == 0
    assert last["vllm:request_success_total,finished_reason=length"] == 3
    assert last["vllm:generation_tokens_total"] == 6
    assert last["vllm:prompt_tokens_total"] == last["vllm:prompt_tokens_by_source_total,source=local_compute"] == 75
    assert last["vllm:inter_token_latency_seconds_count"] == 3
    assert last["vllm:inter_token_latency_seconds_sum"] == 3
    assert last["vllm:time_to_first_token_seconds_sum"] == 1 + 1 + 3
    assert last["vllm:e2e_request_latency_seconds_sum"] == 3 + 2 + 3
    assert last["vllm:request_queue_time_seconds_sum"] == 0 + 0 + 2
    assert last["vllm:request_prefill_time_seconds_sum"] == 1 + 1 + 1
    assert last["vllm:request_decode_time_seconds_sum"] == 2 + 1 + 0
    assert last["vllm:request_prompt_tokens_sum"] == 75
    assert last["vllm:request_generation_tokens_sum"] == 6


def test_cache_configuration_states_the_room() -> None:
    page = EnginePage(model=MODEL, limits=limits()).render().decode()
    [info] = [f for f in text_string_to_metric_families(page) if f.name == "vllm:cache_config_info"]
    [sample] = info.samples
    assert sample.labels["kv_cache_size_tokens"] == "2048"
    assert int(sample.labels["block_size"]) * int(sample.labels["num_gpu_blocks"]) == 2048


def test_a_family_can_be_left_out_alone() -> None:
    page = EnginePage(model=MODEL, limits=limits()).render()
    whole, left = values(page), values(without_family(page, "vllm:num_requests_waiting"))
    assert whole.keys() - left.keys() == {"vllm:num_requests_waiting"}


def test_only_the_engines_values_become_nan() -> None:
    page = with_not_a_number(EnginePage(model=MODEL, limits=limits()).render())
    for name, value in values(page).items():
        assert (value != value) == name.startswith("vllm:")  # noqa: PLR0124  (NaN differs from itself)
