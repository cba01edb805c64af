"""AMD's device-metrics-exporter: whole GPUs and their partitions.

Names, units and labels: ROCm/device-metrics-exporter, docs/configuration/metricslist.md and its README; names come in
lower or upper case and with or without ``amd_``. Activities are percentages, memory is in MiB (amd-smi's "MB"), energy
in microjoules, PCIe traffic in Mb/s of both directions. There is no XID: that is NVIDIA's.
"""

from __future__ import annotations

from collections.abc import Mapping

from adapters.gpus.fields import Field, Rows, used_within
from adapters.gpus.samples import Samples
from autoscaler.domain.gpu_reading import DevicesRead, GpuReading, PodName
from autoscaler.domain.reading import Measured, Unknown, UnknownReason

_ACTIVITY = "gpu_gfx_activity"
_FIELDS = (
    Field(name="gr_engine_active", series=(_ACTIVITY,), highest=100.0, per=100.0),
    Field(name="sm_active", series=("gpu_prof_sm_active",), highest=100.0, per=100.0),
    Field(name="dram_active", series=("gpu_umc_activity",), highest=100.0, per=100.0),
    Field(name="fb_used_mib", series=("gpu_used_vram",), highest=4.0 * 1024 * 1024),
    Field(name="fb_total_mib", series=("gpu_total_vram",), highest=4.0 * 1024 * 1024),
    Field(
        name="power_w", series=("gpu_package_power", "gpu_average_package_power", "gpu_power_usage"), highest=10_000.0
    ),
    Field(name="energy_j", series=("gpu_energy_consumed",), per=1e6),
    Field(name="pcie_bytes_per_s", series=("pcie_bandwidth",), highest=1e8, scale=1e6, per=8.0),
    Field(name="ecc_uncorrected", series=("gpu_ecc_uncorrect_total",), whole=True),
)
_SERIES = frozenset(name for each in _FIELDS for name in each.series)
_PREFIX = "amd_"
_UNPARTITIONED = frozenset({"", "na", "none", "spx"})
_NO_XID = Unknown(UnknownReason.NOT_EXPORTED, "AMD has no XID errors")
_NO_NVLINK = Unknown(UnknownReason.NOT_EXPORTED, "XGMI is told as a total for each link, and not read")


def sample_names() -> frozenset[str]:
    """The names of all samples that are read."""
    lower = {*_SERIES, *(_PREFIX + name for name in _SERIES)}
    return frozenset({*lower, *(name.upper() for name in lower), *(_PREFIX + name.upper() for name in _SERIES)})


def amd_devices(samples: Samples, *, at_s: float) -> DevicesRead:
    """The devices on a page of the exporter. Raises nothing."""
    found: dict[tuple[str, str, str], Rows] = {}
    kept = [
        (name, dict(series.labels), value)
        for series, value in samples
        if (name := series.name.lower().removeprefix(_PREFIX)) in _SERIES
    ]
    exported = any("exported_pod" in labels for _, labels, _ in kept)
    for name, labels, value in kept:
        index, uuid = labels.get("gpu_id", ""), labels.get("gpu_uuid", "")
        if not uuid.strip("0-"):
            uuid = f"amd-gpu{index}" if index else ""  # virtual functions all have a UUID of zeros
        if not uuid:
            continue
        node = labels.get("hostname", "")
        kind = labels.get("gpu_compute_partition_type", "").lower()
        gi = None if kind in _UNPARTITIONED else labels.get("gpu_partition_id") or None
        place = (f"{node} {labels.get('instance', '')}", uuid, gi or "")
        rows = found.setdefault(place, Rows(uuid=uuid, index=index, gi=gi, node=node))
        if gi is not None:
            rows.profiles.add(kind)
        rows.add(name, _pod(labels, exported=exported), value)
    return DevicesRead(devices=tuple(_reading(rows, at_s=at_s) for _, rows in sorted(found.items(), key=_place)))


def _place(item: tuple[tuple[str, str, str], Rows]) -> tuple[str, int, str, str]:
    (told_by, device, gi), rows = item
    return told_by, int(rows.index) if rows.index.isdecimal() else -1, device, gi


def _pod(labels: Mapping[str, str], *, exported: bool) -> PodName | None:
    """The workload that a row names; beside ``exported_pod``, ``pod`` is the exporter itself."""
    before = "exported_" if exported else ""
    name = labels.get(f"{before}pod", "")
    return PodName(namespace=labels.get(f"{before}namespace", ""), name=name) if name else None


def _reading(rows: Rows, *, at_s: float) -> GpuReading:
    told: dict[str, Measured] = rows.read(_FIELDS)
    return GpuReading(
        uuid=rows.uuid,
        at_s=at_s,
        index=rows.index,
        gi=rows.gi,
        profile=rows.profile,
        node=rows.node,
        holder=rows.holder,
        gr_engine_active=told["gr_engine_active"],
        sm_active=told["sm_active"],
        dram_active=told["dram_active"],
        gpu_util=told["gr_engine_active"],  # the share of time in which the graphics engine works is both
        fb_used_mib=used_within(told["fb_used_mib"], told["fb_total_mib"]),
        fb_total_mib=told["fb_total_mib"],
        power_w=told["power_w"],
        energy_j=told["energy_j"],
        pcie_bytes_per_s=told["pcie_bytes_per_s"],
        nvlink_bytes_per_s=_NO_NVLINK,
        xid=_NO_XID,
        ecc_uncorrected=told["ecc_uncorrected"],
    )
