"""Shipped step times: found by the names people use, with a clear error where there is none; and MIG slices of them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from autoscaler.domain.capacity import StepTime
from predictors.profiles import Profile, UnknownProfileError, find_profile, profiles
from predictors.step_time import TYPICAL, scale_to_slice, scaled

GIB = 2**30
# Total memory as nvidia-smi shows it, GiB.
MEMORY_GIB = {"a100_sxm": 80.0, "h100_sxm": 79.6, "h200_sxm": 140.4, "l40s": 45.0}
# Parameters (1e9), bytes a parameter, and layers, KV heads and head size of the published model configurations.
MODELS = {
    "Meta-Llama-3.1-8B": (8.03, 2.0, 32, 8, 128),
    "Meta-Llama-3.1-70B": (70.55, 2.0, 80, 8, 128),
    "Llama-3.1-70B-Instruct-FP8": (70.55, 1.03, 80, 8, 128),
    "Qwen3-32B": (32.76, 2.0, 64, 8, 128),
}


@pytest.mark.parametrize(
    ("gpu", "model", "tp", "name"),
    [
        pytest.param("h100_sxm", "Meta-Llama-3.1-8B", 1, "h100_sxm/Meta-Llama-3.1-8B/tp1", id="as shipped"),
        pytest.param(
            "NVIDIA H100 80GB HBM3",
            "meta-llama/Llama-3.1-8B-Instruct",
            1,
            "h100_sxm/Meta-Llama-3.1-8B/tp1",
            id="as nvidia-smi and the hub write it",
        ),
        pytest.param("NVIDIA L40S", "llama-3.1-8b", 1, "l40s/Meta-Llama-3.1-8B/tp1", id="lower case"),
        pytest.param(
            "A100-SXM4-80GB", "meta-llama/Llama-3.1-70B", 8, "a100_sxm/Meta-Llama-3.1-70B/tp8", id="socket and memory"
        ),
        pytest.param("H200", "Qwen/Qwen3-32B", 2, "h200_sxm/Qwen3-32B/tp2", id="short"),
        pytest.param(
            "h100",
            "nvidia/Llama-3.1-70B-Instruct-FP8",
            2,
            "h100_sxm/Llama-3.1-70B-Instruct-FP8/tp2",
            id="quantised is another profile",
        ),
    ],
)
def test_a_profile_is_found_by_its_usual_names(gpu: str, model: str, tp: int, name: str) -> None:
    assert find_profile(gpu=gpu, model=model, tp=tp).name == name


@pytest.mark.parametrize(
    ("gpu", "model", "tp", "nearest"),
    [
        pytest.param("h100", "Llama-3.1-70B", 2, "h100_sxm/Meta-Llama-3.1-70B/tp4", id="other parallelism"),
        pytest.param("H100 PCIe", "Llama-3.1-8B", 1, "h100_sxm/Meta-Llama-3.1-8B/tp1", id="another form of the card"),
        pytest.param("A100-SXM4-40GB", "Llama-3.1-8B", 1, "a100_sxm/Meta-Llama-3.1-8B/tp1", id="half the memory"),
        pytest.param("h100", "Llama-3.1-9B", 1, "h100_sxm/Meta-Llama-3.1-8B/tp1", id="misspelt model"),
        pytest.param("b200", "Qwen3-32B", 2, "h200_sxm/Qwen3-32B/tp2", id="other GPU"),
    ],
)
def test_an_unknown_profile_is_refused_and_the_nearest_named(gpu: str, model: str, tp: int, nearest: str) -> None:
    with pytest.raises(UnknownProfileError) as refused:
        find_profile(gpu=gpu, model=model, tp=tp)
    message = str(refused.value)
    assert repr(gpu) in message
    assert repr(model) in message
    assert f"parallelism {tp}" in message
    assert message.endswith(f"nearest: {nearest}")


def test_there_are_seventeen_profiles_with_names_of_their_own() -> None:
    names = [each.name for each in profiles()]
    assert len(names) == len(set(names)) == 17
    assert names == sorted(names)
    assert all(find_profile(gpu=each.gpu, model=each.model, tp=each.tp) == each for each in profiles())


@pytest.mark.parametrize("profile", profiles(), ids=lambda each: each.name)
def test_kv_tokens_are_what_memory_leaves_beside_the_weights(profile: Profile) -> None:
    billions, width, layers, heads, size = MODELS[profile.model]
    memory = 0.9 * MEMORY_GIB[profile.gpu] * GIB * profile.tp
    bytes_a_token = 2 * layers * heads * size * 2
    expected = (memory - billions * 1e9 * width - 3e9 * profile.tp) / bytes_a_token
    assert profile.kv_tokens == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("profile", profiles(), ids=lambda each: each.name)
def test_typical_proportions_lie_among_those_of_the_profiles(profile: Profile) -> None:
    step = profile.step_time
    assert 0.5 < step.d_s / step.c_s / TYPICAL.d_s < 2
    assert 0.5 < step.e_s / step.c_s / TYPICAL.e_s < 5
    assert 0.5 < step.a_s / step.c_s / TYPICAL.a_s < 2


def test_a_slice_pays_memory_terms_by_memory_and_compute_terms_by_compute() -> None:
    whole = StepTime(c_s=0.005, d_s=1e-5, e_s=3e-8, a_s=2e-5)
    # 3g.71gb of an H200: 4 of 8 memory slices, 3 of 7 compute slices.
    part = scale_to_slice(whole, memory_slices=4, compute_slices=3)
    assert part.c_s == pytest.approx(0.010)
    assert part.e_s == pytest.approx(6e-8)
    assert part.d_s == pytest.approx(7e-5 / 3)
    assert part.a_s == pytest.approx(14e-5 / 3)
    assert scale_to_slice(whole, memory_slices=8, compute_slices=7) == whole
    # 2g.12gb of an A30: 2 of 4 and 2 of 4.
    half = scale_to_slice(whole, memory_slices=2, compute_slices=2, total_memory_slices=4, total_compute_slices=4)
    assert half == scaled(whole, 2.0)


@pytest.mark.parametrize(
    ("memory", "compute", "named"),
    [
        pytest.param(0, 1, r"memory_slices must lie in \[1, 8\], got 0", id="no memory"),
        pytest.param(1, 8, r"compute_slices must lie in \[1, 7\], got 8", id="more than the GPU"),
    ],
)
def test_an_impossible_slice_is_refused(memory: int, compute: int, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        scale_to_slice(TYPICAL, memory_slices=memory, compute_slices=compute)


@pytest.mark.parametrize("profile", profiles(), ids=lambda each: each.name)
def test_the_documentation_shows_the_shipped_figures(profile: Profile) -> None:
    step = profile.step_time
    row = (
        f"| {profile.gpu} | {profile.model}, {profile.tp} | {step.c_s * 1e3:.2f} | {step.d_s * 1e6:.1f} "
        f"| {step.e_s * 1e9:.1f} | {step.a_s * 1e6:.1f} | {profile.decode_error:.1%} | {profile.kv_tokens:,.0f} |"
    )
    text = (Path(__file__).parents[2] / "docs" / "capacity.md").read_text(encoding="utf-8")
    assert row.replace("%", " %") in text


def test_every_profile_is_in_seconds() -> None:
    for each in profiles():
        assert 1e-3 < each.step_time.c_s < 0.1
        assert 0 < each.decode_error < 0.05
        assert 0 < each.prefill_error < 0.2
        assert math.isfinite(each.kv_tokens)
