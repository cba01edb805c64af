"""``gpu-autoscaler read`` of a GPU exporter's page."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from autoscaler.cli import app
from tests.adapters_gpus.conftest import PAGES


def read(name: str, *options: str) -> Result:
    return CliRunner().invoke(app, ["read", str(PAGES / f"{name}.prom"), *options])


def test_json_of_a_mig_page() -> None:
    result = read("dcgm_4.8_mig", "--output", "json")
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert told["engine"] == "unknown"
    assert "unknown" in told["signals"]["waiting"]
    small = next(each for each in told["devices"] if each["gi"] == "9")
    assert {name: small[name] for name in ("uuid", "gpu", "profile", "node", "pod", "namespace")} == {
        "uuid": "GPU-22222222-0000-0000-0000-000000000001",
        "gpu": "0",
        "profile": "1g.10gb",
        "node": "dcgm-exporter-wwwjh",
        "pod": "tts-7",
        "namespace": "dev",
    }
    assert [small[name] for name in ("gr_engine_active", "dram_active", "fb_used_mib", "xid")] == [0.25, 0.05, 7700, 94]
    assert small["sm_active"]["unknown"].startswith("OutOfRange: ")
    assert small["power_w"]["unknown"].startswith("Shared: ")
    assert small["faults"] == ["XID 94 (contained memory error)"]
    gpu = told["devices"][0]
    assert (gpu["gi"], gpu["power_w"], gpu["energy_j"], gpu["pod"]) == (None, 287.5, 1500.5, None)
    assert any("unfit to scale" in warning for warning in told["warnings"])
    assert any("instance 9" in warning and "no capacity" in warning for warning in told["warnings"])


def test_json_of_a_shared_gpu_names_no_pod() -> None:
    (gpu,) = json.loads(read("dcgm_4.4_time_sliced", "--output", "json").stdout)["devices"]
    assert (gpu["pod"], gpu["namespace"]) == (None, None)
    assert gpu["holder"]["unknown"].startswith("Shared: 3 pods have it")
    assert gpu["faults"] == {"unknown": "NotExported: neither XID nor ECC errors are told"}


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        pytest.param("dcgm_4.5_whole", ["95.1%", "61.3%", "44.3%", "97.0%", "73000", "612"], id="whole"),
        pytest.param("dcgm_4.8_mig", ["88.0%", "70.0%", "36000", "288"], id="MIG"),
        pytest.param("amd_1.4", ["83.0%", "62.5%", "41.0%", "176500", "487"], id="AMD"),
    ],
)
def test_for_a_person(name: str, figures: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    result = read(name, "--output", "table")
    assert result.exit_code == 0
    assert [figure for figure in figures if figure not in result.stdout] == []
    assert "unfit" in result.stdout


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("dcgm_4.5_whole", id="whole"),
        pytest.param("dcgm_4.8_mig", id="MIG"),
        pytest.param("dcgm_4.4_time_sliced", id="time-sliced"),
        pytest.param("dcgm_2.4_sentinels", id="sentinels"),
        pytest.param("amd_1.4", id="AMD"),
    ],
)
def test_gpu_metrics_are_said_to_be_unfit_to_scale_on(name: str) -> None:
    told = json.loads(read(name, "--output", "json").stdout)
    assert [warning for warning in told["warnings"] if "alone unfit to scale on" in warning]
    assert told["devices"]
    assert all("unknown" in signal for signal in told["signals"].values())


def test_an_engines_page_has_no_devices() -> None:
    page = PAGES.parent / "scrapes" / "vllm_0.32_cpu_idle.prom"
    told = json.loads(CliRunner().invoke(app, ["read", str(page), "--output", "json"]).stdout)
    assert (told["engine"], told["devices"]) == ("vllm", [])
    assert not any("unfit" in warning for warning in told["warnings"])
