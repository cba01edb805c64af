"""Ways in which dcgm-exporter's pages differ by version, and lie; each named by the report it is known from."""

from __future__ import annotations

import pytest

from autoscaler.domain.gpu_reading import PodName
from autoscaler.domain.reading import Unknown, UnknownReason
from tests.adapters_gpus.conftest import PAGES, ReadPage, read_text
from tests.adapters_gpus.test_pages import holder

UUID = "GPU-aaaaaaaa-0000-0000-0000-000000000001"
GPU = f'gpu="0",UUID="{UUID}"'


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param('pod="a",namespace="x",container="c"', "x/a", id="scraped directly"),
        pytest.param('pod="",namespace="",container=""', "NotExported", id="#58: empty labels of a free GPU"),
        pytest.param('Hostname="node"', "NotExported", id="#60: no labels at all"),
        pytest.param('pod_name="a",pod_namespace="x",container_name="c"', "x/a", id="old namespace"),
        pytest.param(
            'exported_pod="a",exported_namespace="x",pod="dcgm-exporter-1",namespace="mon",job="dcgm",instance="i"',
            "x/a",
            id="through Prometheus",
        ),
        pytest.param(
            'pod="dcgm-exporter-1",namespace="mon",container="exporter",job="dcgm",instance="i"',
            "NotExported",
            id="#340: a free GPU through Prometheus, where pod is the exporter",
        ),
        pytest.param(
            'pod="a",namespace="x",container="c",job="dcgm",instance="i"', "x/a", id="Prometheus with honorLabels"
        ),
    ],
)
def test_the_pod_that_has_a_gpu(labels: str, expected: str) -> None:
    (gpu,) = read_text(f"DCGM_FI_DEV_GPU_UTIL{{{GPU},{labels}}} 40\n").devices
    assert holder(gpu) == expected


def test_beside_exported_pods_a_row_without_one_is_nobodys() -> None:
    one, two = read_text(
        f'DCGM_FI_DEV_GPU_UTIL{{{GPU},exported_pod="a",exported_namespace="x",pod="e",namespace="m"}} 40\n'
        'DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",pod="e",namespace="m"} 0\n'
    ).devices
    assert (holder(one), holder(two)) == ("x/a", "NotExported")


@pytest.mark.parametrize("label", ["Hostname", "hostname"])
def test_655_the_host_by_either_name(label: str) -> None:
    (gpu,) = read_text(f'DCGM_FI_DEV_GPU_UTIL{{{GPU},{label}="n1"}} 40\n').devices
    assert gpu.node == "n1"


def test_the_old_lower_case_namespace() -> None:
    (gpu,) = read_text(f'dcgm_fi_prof_gr_engine_active{{gpu="0",uuid="{UUID}",GPU_I_ID="2"}} 0.5\n').devices[1:]
    assert (gpu.uuid, gpu.gi, gpu.gr_engine_active) == (UUID, "2", 0.5)


def test_a_collector_that_adds_total_to_counters() -> None:
    (gpu,) = read_text(f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_total{{{GPU}}} 5000\n").devices
    assert gpu.energy_j == 5


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        pytest.param("100", 1.0, id="all"),
        pytest.param("57", 0.57, id="some"),
        pytest.param("0", 0.0, id="none is zero, not unknown"),
        pytest.param("101", UnknownReason.OUT_OF_RANGE, id="just above"),
        pytest.param("2619", UnknownReason.OUT_OF_RANGE, id="#418"),
        pytest.param("4294967295", UnknownReason.OUT_OF_RANGE, id="DCGM#199"),
        pytest.param("2147483632", UnknownReason.OUT_OF_RANGE, id="INT32 blank"),
        pytest.param("-1", UnknownReason.OUT_OF_RANGE, id="negative"),
        pytest.param("NaN", UnknownReason.NOT_A_NUMBER, id="NaN"),
        pytest.param("+Inf", UnknownReason.NOT_A_NUMBER, id="infinite"),
    ],
)
def test_utilisation_is_a_percentage(printed: str, expected: float | UnknownReason) -> None:
    (gpu,) = read_text(f"DCGM_FI_DEV_GPU_UTIL{{{GPU}}} {printed}\n").devices
    assert (gpu.gpu_util.reason if isinstance(gpu.gpu_util, Unknown) else gpu.gpu_util) == expected


@pytest.mark.parametrize(
    "printed", ["140737488355328", "140737488355331", "9223372036854775794", "18446744073709551615"]
)
def test_blanks_of_counters_are_no_counts(printed: str) -> None:
    (gpu,) = read_text(f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{GPU}}} {printed}\n").devices
    assert isinstance(gpu.energy_j, Unknown)


@pytest.mark.parametrize("busy", ["50", "99"], ids=["DCGM#303", "#662"])
def test_a_busy_gpu_said_to_do_nothing_is_a_contradiction(busy: str) -> None:
    (gpu,) = read_text(
        f"DCGM_FI_DEV_GPU_UTIL{{{GPU}}} {busy}\nDCGM_FI_PROF_GR_ENGINE_ACTIVE{{{GPU}}} 0.000000\n"
        f"DCGM_FI_PROF_DRAM_ACTIVE{{{GPU}}} 0.000000\nDCGM_FI_DEV_FB_USED{{{GPU}}} 4000\n"
    ).devices
    told = [gpu.gpu_util, gpu.gr_engine_active, gpu.dram_active]
    assert [each.reason for each in told if isinstance(each, Unknown)] == [UnknownReason.CONTRADICTION] * 3
    assert gpu.fb_used_mib == 4000


def test_395_without_profiling_the_utilisation_remains() -> None:
    (gpu,) = read_text(f"DCGM_FI_DEV_GPU_UTIL{{{GPU}}} 0\n").devices
    assert gpu.gpu_util == 0
    assert isinstance(gpu.gr_engine_active, Unknown)


GONE_IN_4_8_2 = (
    *("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_RESERVED"),
    *("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE"),
)


def test_700_what_a_new_version_leaves_out_is_unknown_and_not_zero(read_page: ReadPage) -> None:
    page = (PAGES / "dcgm_4.5_whole.prom").read_text()
    kept = [line for line in page.splitlines() if not line.startswith(GONE_IN_4_8_2)]
    before, after = read_page("dcgm_4.5_whole").devices[0], read_text("\n".join(kept) + "\n").devices[0]
    gone = ("xid", "fb_used_mib", "fb_total_mib", "gpu_util", "power_w", "sm_active", "dram_active")
    for name in gone:
        value = getattr(after, name)
        assert isinstance(value, Unknown), name
        assert value.reason is UnknownReason.MISSING_SERIES
    assert (after.gr_engine_active, after.energy_j, after.holder) == (
        before.gr_engine_active,
        before.energy_j,
        before.holder,
    )


def test_428_rows_that_name_two_pods_are_nobodys() -> None:
    """Labels that changed between two series, or outlived their pod: nobody says whose the device is now."""
    (gpu,) = read_text(
        f'DCGM_FI_DEV_GPU_UTIL{{{GPU},pod="gone",namespace="x"}} 40\n'
        f'DCGM_FI_DEV_POWER_USAGE{{{GPU},pod="new",namespace="x"}} 300\n'
    ).devices
    assert holder(gpu) == "Shared"
    assert (gpu.gpu_util, gpu.power_w) == (0.4, 300)


def test_544_a_profile_that_changes_between_rows_is_none() -> None:
    read = read_text(
        f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{GPU},GPU_I_ID="3",GPU_I_PROFILE="1g.10gb"}} 0.5\n'
        f'DCGM_FI_PROF_DRAM_ACTIVE{{{GPU},GPU_I_ID="3",GPU_I_PROFILE="1g.12gb"}} 0.5\n'
    )
    assert read.devices[1].profile is None
    assert "1g.10gb, 1g.12gb" in read.warnings[0]


def test_68_an_instance_that_works_without_a_pod_is_nobodys() -> None:
    _, instance = read_text(
        f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{GPU},GPU_I_ID="1",GPU_I_PROFILE="2g.12gb",pod="",namespace=""}} 0.381124\n'
    ).devices
    assert (instance.gr_engine_active, holder(instance)) == (0.381124, "NotExported")


def test_repeated_series_that_agree_count_once_and_others_not_at_all() -> None:
    same = f"DCGM_FI_DEV_POWER_USAGE{{{GPU}}} 50\n"
    (gpu,) = read_text(same + same).devices
    assert gpu.power_w == 50
    (gpu,) = read_text(same + f"DCGM_FI_DEV_POWER_USAGE{{{GPU}}} 60\n").devices
    assert isinstance(gpu.power_w, Unknown)
    assert gpu.power_w.reason is UnknownReason.CONTRADICTION


def test_two_exporters_that_tell_of_one_gpu_make_one_device() -> None:
    read = read_text(
        f'DCGM_FI_DEV_POWER_USAGE{{{GPU},Hostname="n",instance="b:9400"}} 60\n'
        f'DCGM_FI_DEV_POWER_USAGE{{{GPU},Hostname="n",instance="a:9400"}} 50\n'
    )
    assert [each.power_w for each in read.devices] == [50]
    assert "several exporters" in read.warnings[0]


def test_more_is_used_than_there_is() -> None:
    (gpu,) = read_text(f"DCGM_FI_DEV_FB_USED{{{GPU}}} 90000\nDCGM_FI_DEV_FB_TOTAL{{{GPU}}} 81920\n").devices
    assert isinstance(gpu.fb_used_mib, Unknown)
    assert gpu.fb_total_mib == 81920


def test_xids_that_are_counted_are_known_beside_the_last() -> None:
    (gpu,) = read_text(
        f"DCGM_FI_DEV_XID_ERRORS{{{GPU}}} 31\n"
        f'DCGM_EXP_XID_ERRORS_COUNT{{{GPU},window_size_in_ms="300000",xid="79"}} 1\n'
        f'DCGM_EXP_XID_ERRORS_COUNT{{{GPU},window_size_in_ms="300000",xid="48"}} 0\n'
    ).devices
    assert (gpu.xid, gpu.recent_xids) == (31, (31, 79))


def test_rows_of_links_and_switches_are_no_devices() -> None:
    read = read_text('DCGM_FI_DEV_XID_ERRORS{nvswitch="0",Hostname="n"} 0\nDCGM_FI_DEV_CPU_UTIL_TOTAL{cpu="0"} 1\n')
    assert read.devices == ()


def test_a_pod_is_more_than_its_name() -> None:
    assert PodName(namespace="a", name="x") != PodName(namespace="b", name="x")
