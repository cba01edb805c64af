"""dcgm-exporter's pages, 2.4 to 4.8: whole GPUs, MIG instances and GPUs that several pods share.

Names, units and labels: NVIDIA/dcgm-exporter, etc/default-counters.csv and internal/pkg/transformation/kubernetes.go;
field identifiers: DCGM's dcgm_fields. The series are GPU_UTIL in percent, PROF_*_ACTIVE as fractions, FB_* in MiB,
POWER_USAGE in W, TOTAL_ENERGY_CONSUMPTION in mJ, PROF_*_BYTES in bytes per second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from adapters.gpus.fields import Field, Rows, added, used_within
from adapters.gpus.samples import LabelledSeries, Samples
from autoscaler.domain.gpu_reading import DevicesRead, GpuReading, PodName
from autoscaler.domain.reading import Measured, Unknown, UnknownReason, is_known

_LARGEST_MIB = 4.0 * 1024 * 1024
_LARGEST_W = 10_000.0
_LARGEST_BYTES_PER_S = 1e13
_LARGEST_XID = 1023.0
_BUSY = 0.5

_ACTIVITIES = (
    Field(name="gr_engine_active", series=("dcgm_fi_prof_gr_engine_active",), highest=1.0),
    Field(name="sm_active", series=("dcgm_fi_prof_sm_active",), highest=1.0),
    Field(name="dram_active", series=("dcgm_fi_prof_dram_active",), highest=1.0),
)
_UTIL = Field(name="gpu_util", series=("dcgm_fi_dev_gpu_util",), highest=100.0, per=100.0)
_MEMORY = (
    Field(name="fb_used", series=("dcgm_fi_dev_fb_used",), highest=_LARGEST_MIB),
    Field(name="fb_free", series=("dcgm_fi_dev_fb_free",), highest=_LARGEST_MIB),
    Field(name="fb_reserved", series=("dcgm_fi_dev_fb_reserved",), highest=_LARGEST_MIB),
    Field(name="fb_total", series=("dcgm_fi_dev_fb_total",), highest=_LARGEST_MIB),
)
_PCIE = (
    Field(name="pcie_tx", series=("dcgm_fi_prof_pcie_tx_bytes",), highest=_LARGEST_BYTES_PER_S),
    Field(name="pcie_rx", series=("dcgm_fi_prof_pcie_rx_bytes",), highest=_LARGEST_BYTES_PER_S),
)
_NVLINK = (
    Field(name="nvlink_tx", series=("dcgm_fi_prof_nvlink_tx_bytes",), highest=_LARGEST_BYTES_PER_S),
    Field(name="nvlink_rx", series=("dcgm_fi_prof_nvlink_rx_bytes",), highest=_LARGEST_BYTES_PER_S),
)
_OF_THE_GPU = (
    Field(name="power_w", series=("dcgm_fi_dev_power_usage",), highest=_LARGEST_W),
    Field(name="energy_j", series=("dcgm_fi_dev_total_energy_consumption",), per=1000.0),
    *_PCIE,
    *_NVLINK,
)
_ERRORS = (
    Field(name="xid", series=("dcgm_fi_dev_xid_errors",), highest=_LARGEST_XID, whole=True),
    Field(name="ecc_uncorrected", series=("dcgm_fi_dev_ecc_dbe_vol_total",), whole=True),
)
_FIELDS = (*_ACTIVITIES, _UTIL, *_MEMORY, *_OF_THE_GPU, *_ERRORS)
_XID_COUNTS = "dcgm_exp_xid_errors_count"  # one row for each XID of the last minutes, in its label
_SERIES = frozenset({name for each in _FIELDS for name in each.series} | {_XID_COUNTS})

# Pods that export, as Prometheus itself names the target; with honorLabels false they stand where the workload's
# would, and a free GPU's row has no other (exported_pod) beside them.
_EXPORTERS = frozenset({"exporter", "dcgm-exporter", "nvidia-dcgm-exporter"})
_OF_AN_INSTANCE = Unknown(UnknownReason.SHARED, "known of the whole GPU only, which its instances share")
_PER_INSTANCE = Unknown(UnknownReason.NOT_EXPORTED, "told for each MIG instance")
_NOT_UNDER_MIG = Unknown(UnknownReason.NOT_EXPORTED, "not measured under MIG; gr_engine_active is")

_Place = tuple[str, str]  # who told it (host, target), and the GPU's UUID


def sample_names() -> frozenset[str]:
    """The names of all samples that are read, with the old lower-case namespace's."""
    return frozenset({*_SERIES, *(name.upper() for name in _SERIES)})


def dcgm_devices(samples: Samples, *, at_s: float) -> DevicesRead:
    """The devices on a dcgm-exporter's page, or on several together (from Prometheus): each once.

    Instances and their GPU are both listed, a field is known of either. Raises nothing.
    """
    found: dict[_Place, dict[str | None, Rows]] = {}
    kept = [(name, dict(series.labels), value) for series, value in samples if (name := _canonical(series)) in _SERIES]
    exported = any("exported_pod" in labels for _, labels, _ in kept)
    for name, labels, value in kept:
        uuid = labels.get("UUID") or labels.get("uuid") or ""
        index = labels.get("gpu", "")
        if not uuid and not index:
            continue  # an NVLink's, a switch's or a CPU's row
        node = labels.get("Hostname") or labels.get("hostname") or ""
        place = (f"{node} {labels.get('instance', '')}", uuid or index)
        gi = labels.get("GPU_I_ID") or None
        rows = found.setdefault(place, {}).get(gi)
        if rows is None:
            rows = found[place][gi] = Rows(uuid=uuid or f"gpu{index}", index=index, gi=gi, node=node)
        if profile := labels.get("GPU_I_PROFILE"):
            rows.profiles.add(profile)
        _note(rows, name, labels, value, exported=exported)
    return _read(found, at_s=at_s)


def _canonical(series: LabelledSeries) -> str:
    """The name in lower case; some collectors add ``_total`` to counters."""
    name = series.name.lower()
    return name if name in _SERIES else name.removesuffix("_total")


def _note(rows: Rows, name: str, labels: Mapping[str, str], value: float, *, exported: bool) -> None:
    if name == _XID_COUNTS:
        if value > 0 and labels.get("xid", "").isdecimal():
            rows.xids.add(int(labels["xid"]))
        return
    rows.add(name, _pod(labels, exported=exported), value)


def _pod(labels: Mapping[str, str], *, exported: bool) -> PodName | None:
    """The workload that a row names."""
    if exported:
        name, namespace = labels.get("exported_pod", ""), labels.get("exported_namespace", "")
    else:
        name = labels.get("pod") or labels.get("pod_name") or ""
        namespace = labels.get("namespace") or labels.get("pod_namespace") or ""
        container = labels.get("container") or labels.get("container_name") or ""
        scraped = "instance" in labels or "job" in labels
        if scraped and (container in _EXPORTERS or name == (labels.get("Hostname") or labels.get("hostname"))):
            return None
    return PodName(namespace=namespace, name=name) if name else None


def _read(found: Mapping[_Place, Mapping[str | None, Rows]], *, at_s: float) -> DevicesRead:
    devices: list[GpuReading] = []
    warnings: list[str] = []
    seen: set[str] = set()
    for place, parts in sorted(found.items(), key=lambda item: item[0]):
        known_as = place[1] if place[1].startswith(("GPU-", "MIG-")) else " ".join(place)
        if known_as in seen:
            warnings.append(f"{place[1]} is told of by several exporters; the first by name counts")
            continue
        seen.add(known_as)
        instances = [_instance(rows, at_s=at_s) for gi, rows in sorted(parts.items(), key=_by_gi) if gi is not None]
        whole = parts.get(None)
        if instances:
            devices.append(_parent(whole, [parts[each.gi] for each in instances], instances, at_s=at_s))
        elif whole is not None:
            devices.append(_whole(whole, at_s=at_s))
        devices += instances
        for rows in parts.values():
            if len(rows.profiles) > 1:
                several = ", ".join(sorted(rows.profiles))
                warnings.append(f"{rows.uuid} instance {rows.gi} is said to have several profiles: {several}")
    return DevicesRead(devices=tuple(devices), warnings=tuple(warnings))


def _by_gi(item: tuple[str | None, Rows]) -> tuple[int, str]:
    gi = item[0] or ""
    return (int(gi) if gi.isdecimal() else -1, gi)


def _whole(rows: Rows, *, at_s: float) -> GpuReading:
    told = rows.read(_FIELDS)
    activity, util = _consistent(told)
    return _reading(rows, {**told, **activity, "gpu_util": util}, at_s=at_s)


def _instance(rows: Rows, *, at_s: float) -> GpuReading:
    told = rows.read(_FIELDS)
    # Some versions print 0 for it; the other rows repeat what is the GPU's.
    told["gpu_util"] = _NOT_UNDER_MIG
    told |= {each.name: _OF_AN_INSTANCE for each in _OF_THE_GPU}
    return _reading(rows, told, at_s=at_s)


def _parent(whole: Rows | None, parts: list[Rows], instances: list[GpuReading], *, at_s: float) -> GpuReading:
    """The GPU of these instances: what is known of it alone. Its own row counts, else what all its instances repeat."""
    rows = whole or Rows(uuid=parts[0].uuid, index=parts[0].index, gi=None, node=parts[0].node)
    told = rows.read(_FIELDS)
    for each in (*_OF_THE_GPU, *_ERRORS):
        if _is_missing(told[each.name]):
            told[each.name] = _repeated([part.read((each,))[each.name] for part in parts])
    told["gpu_util"] = _NOT_UNDER_MIG
    reading = _reading(rows, told, at_s=at_s)

    def own(name: str) -> Measured:
        """The GPU's value, where none of its instances has one."""
        value: Measured = getattr(reading, name)
        return _PER_INSTANCE if any(is_known(getattr(each, name)) for each in instances) else value

    return replace(
        reading,
        holder=Unknown(UnknownReason.SHARED, "its MIG instances are held one by one"),
        gr_engine_active=own("gr_engine_active"),
        sm_active=own("sm_active"),
        dram_active=own("dram_active"),
        fb_used_mib=own("fb_used_mib"),
        fb_total_mib=own("fb_total_mib"),
    )


def _is_missing(value: Measured) -> bool:
    return isinstance(value, Unknown) and value.reason is UnknownReason.MISSING_SERIES


def _repeated(values: list[Measured]) -> Measured:
    """One value that all who tell it agree on."""
    known = {value for value in values if is_known(value)}
    if len(known) == 1:
        return known.pop()
    if known:
        told = ", ".join(f"{value:g}" for value in sorted(known))
        return Unknown(UnknownReason.CONTRADICTION, f"its instances tell {told}")
    return values[0]


def _consistent(told: Mapping[str, Measured]) -> tuple[dict[str, Measured], Measured]:
    """Profiled activity and utilisation, unless a busy GPU is said to do nothing (dcgm-exporter#662, DCGM#303)."""
    activity = {each.name: told[each.name] for each in _ACTIVITIES}
    util, engine = told["gpu_util"], told["gr_engine_active"]
    if is_known(util) and is_known(engine) and engine == 0 and util >= _BUSY:
        detail = f"gr_engine_active 0 with gpu_util {util:g}: does another profiler hold the GPU?"
        why = Unknown(UnknownReason.CONTRADICTION, detail)
        return {name: why if is_known(value) else value for name, value in activity.items()}, why
    return activity, util


def _reading(rows: Rows, told: Mapping[str, Measured], *, at_s: float) -> GpuReading:
    total = told["fb_total"]
    if _is_missing(total):
        reserved = told["fb_reserved"]
        # Drivers before R510 count what they reserve as used, and their exporters have no series for it.
        parts = (told["fb_free"],) if _is_missing(reserved) else (told["fb_free"], reserved)
        total = added(told["fb_used"], *parts)
    xid = told["xid"]
    xids = set(rows.xids)
    if is_known(xid) and xid > 0:
        xids.add(int(xid))
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
        gpu_util=told["gpu_util"],
        fb_used_mib=used_within(told["fb_used"], total),
        fb_total_mib=total,
        power_w=told["power_w"],
        energy_j=told["energy_j"],
        pcie_bytes_per_s=added(told["pcie_tx"], told["pcie_rx"]),
        nvlink_bytes_per_s=added(told["nvlink_tx"], told["nvlink_rx"]),
        xid=xid,
        ecc_uncorrected=told["ecc_uncorrected"],
        recent_xids=tuple(sorted(xids)),
    )
