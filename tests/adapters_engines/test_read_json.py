"""What `gpu-autoscaler read --output json` prints has one form, whichever page it is of."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from autoscaler.cli import app
from tests.adapters_engines.known import SCRAPES

GPU_PAGES = SCRAPES.parent / "gpu_pages"
REQUESTS, SECONDS, TOKENS = "requests", "s", "tokens"
UNITS = {
    "waiting": REQUESTS,
    "running": REQUESTS,
    "kv_fraction": "fraction",
    "completed": REQUESTS,
    "refused": REQUESTS,
    "prompt_tokens": TOKENS,
    "generation_tokens": TOKENS,
    "ttft_count": REQUESTS,
    "ttft_sum_s": SECONDS,
    "itl_count": TOKENS,
    "itl_sum_s": SECONDS,
    "e2e_count": REQUESTS,
    "e2e_sum_s": SECONDS,
    "queue_time_count": REQUESTS,
    "queue_time_sum_s": SECONDS,
    "arrivals_stock": REQUESTS,
    "pending": REQUESTS,
    "exec_count": "executions",
    "batch_mean": "items",
}
DEVICE_NAMES = ("uuid", "gi", "profile", "pod", "namespace")
DEVICE_NUMBERS = (
    *("gr_engine_active", "sm_active", "dram_active", "gpu_util"),
    *("fb_used_mib", "power_w", "energy_j", "xid"),
)
ENGINES = {
    "vllm_0.32_cpu_idle": "vllm",
    "vllm_0.32_cpu_overloaded": "vllm",
    "sglang_0.4_overloaded": "sglang",
    "sglang_dp2_tp2": "sglang",
    "tgi_3_overloaded": "tgi",
    "tgi_3_fresh": "tgi",
    "triton_cpu_loaded": "triton",
    "triton_trtllm_ensemble": "triton",
    "trtllm_serve": "trtllm",
    "lmdeploy_dp2": "lmdeploy",
    "nim_llama": "nim",
    "dynamo_frontend": "dynamo",
    "dynamo_frontend_fresh": "dynamo",
}


def printed(page: Path) -> Mapping[str, Any]:
    """The JSON that the command prints of a file."""
    told: Mapping[str, Any] = json.loads(CliRunner().invoke(app, ["read", str(page), "--output", "json"]).stdout)
    assert list(told) == ["engine", "signals", "devices", "warnings"]
    assert all(isinstance(warning, str) for warning in told["warnings"])
    return told


def spelled(series: str) -> tuple[str, frozenset[str]]:
    """A series by its name and labels, in whatever order."""
    name, _, labels = series.partition("{")
    return name, frozenset(re.findall(r'\w+="(?:[^"\\]|\\.)*"', labels))


def test_every_page_is_here() -> None:
    assert {page.stem for page in SCRAPES.glob("*.prom")} == set(ENGINES)


@pytest.mark.parametrize("name", ENGINES)
def test_an_engines_page(name: str) -> None:
    page = SCRAPES / f"{name}.prom"
    told = printed(page)
    assert (told["engine"], told["devices"]) == (ENGINES[name], [])
    assert set(UNITS) <= set(told["signals"])
    there = {
        spelled(line.rpartition(" ")[0]) for line in page.read_text().splitlines() if line and not line.startswith("#")
    }
    for signal, one in told["signals"].items():
        if "unknown" in one:
            assert list(one) == ["unknown"]
            assert re.match(r"[A-Z]\w+(: .+)?$", one["unknown"])
            continue
        assert list(one) == ["value", "unit", "series"]
        assert one["unit"] == UNITS.get(signal, one["unit"])
        assert {spelled(series) for series in one["series"]} <= there
        if one["unit"] in (REQUESTS, TOKENS):
            assert isinstance(one["value"], int)
    for signal in ("waiting", "completed", "arrivals_stock"):
        assert "value" in told["signals"][signal], signal


@pytest.mark.parametrize("name", sorted(page.stem for page in GPU_PAGES.glob("*.prom")))
def test_a_gpu_page(name: str) -> None:
    told = printed(GPU_PAGES / f"{name}.prom")
    assert told["engine"] == "unknown"
    assert all(list(one) == ["unknown"] for one in told["signals"].values())
    assert told["devices"]
    for device in told["devices"]:
        assert all(device[field] is None or isinstance(device[field], str) for field in DEVICE_NAMES)
        for number in DEVICE_NUMBERS:
            value = device[number]
            assert isinstance(value, int | float) or list(value) == ["unknown"], number
        for fraction in DEVICE_NUMBERS[:4]:
            assert isinstance(device[fraction], dict) or 0 <= device[fraction] <= 1


def test_trtllm_serves_json_is_told_with_the_address_of_its_page() -> None:
    told = printed(SCRAPES / "trtllm_serve_json.json")
    assert told["engine"] == "unknown"
    assert ["/prometheus/metrics" in warning for warning in told["warnings"]] == [True]
