"""AMD's pages in their spellings."""

from __future__ import annotations

import pytest

from tests.adapters_gpus.conftest import read_text
from tests.adapters_gpus.test_pages import holder


@pytest.mark.parametrize(
    "name", ["gpu_gfx_activity", "GPU_GFX_ACTIVITY", "amd_gpu_gfx_activity", "AMD_GPU_GFX_ACTIVITY"]
)
def test_names_in_every_spelling(name: str) -> None:
    (gpu,) = read_text(f'{name}{{gpu_id="0",gpu_uuid="u",hostname="h"}} 12\n').devices
    assert (gpu.gr_engine_active, gpu.gpu_util) == (0.12, 0.12)


@pytest.mark.parametrize("name", ["gpu_package_power", "gpu_average_package_power", "gpu_power_usage"])
def test_power_of_either_generation(name: str) -> None:
    (gpu,) = read_text(f'{name}{{gpu_id="0",gpu_uuid="u",hostname="h"}} 300\n').devices
    assert gpu.power_w == 300


def test_virtual_functions_with_one_uuid_are_different_devices() -> None:
    zeros = "00000000-0000-0000-0000-000000000000"
    read = read_text(
        f'gpu_gfx_activity{{gpu_id="10",gpu_uuid="{zeros}",hostname="h",gpu_partition_id="NA"}} 10\n'
        f'gpu_gfx_activity{{gpu_id="2",gpu_uuid="{zeros}",hostname="h",gpu_partition_id="NA"}} 20\n'
    )
    assert [(each.index, each.gi, each.gpu_util) for each in read.devices] == [("2", None, 0.2), ("10", None, 0.1)]
    assert len({each.key for each in read.devices}) == 2


def test_through_prometheus_the_exported_pod_counts() -> None:
    both = 'pod="metrics-exporter-x",namespace="kube-amd-gpu"'
    read = read_text(
        f'gpu_gfx_activity{{gpu_id="0",hostname="h",exported_pod="a",exported_namespace="x",{both}}} 10\n'
        f'gpu_gfx_activity{{gpu_id="1",hostname="h",{both}}} 0\n'
    )
    assert [holder(each) for each in read.devices] == ["x/a", "NotExported"]
