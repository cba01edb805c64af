"""Which devices are broken, by what was read of them.

XID errors after which NVIDIA asks for a reset of the GPU, or its replacement (docs.nvidia.com/deploy/xid-errors,
"Xid Catalog"), and uncorrected memory errors. What an application does wrong itself (XID 13, 31, 43 and others) says
nothing of the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autoscaler.domain.gpu_reading import DeviceKey, GpuReading
from autoscaler.domain.reading import Unknown, UnknownReason, is_known

BREAKING_XIDS: Mapping[int, str] = {
    48: "uncorrectable memory error (double bit ECC)",
    63: "a memory row or page is to be remapped or retired",
    64: "a memory row or page could not be remapped or retired",
    74: "NVLink error",
    79: "the GPU has fallen off the bus",
    94: "contained memory error",
    95: "uncontained memory error",
}
_ECC = "uncorrected memory errors"
# A GPU that fell off the bus leaves its exporter's page. One that was taken out or cut anew does so as well.
REMEMBERED_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenDevice:
    """A device that is no capacity.

    ``faults``: why, for a person; ``seen_s``: when it was last told of; ``names``: by which its node may call it.
    """

    key: DeviceKey
    profile: str | None
    faults: tuple[str, ...]
    seen_s: float
    names: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.key}: {', '.join(self.faults)}"


def faults_of(reading: GpuReading) -> tuple[str, ...] | Unknown:
    """What is wrong with the device, nothing where it is well; Unknown where nobody looks for errors."""
    xids = [xid for xid in reading.recent_xids if xid in BREAKING_XIDS]
    faults = [f"XID {xid} ({BREAKING_XIDS[xid]})" for xid in xids]
    if is_known(reading.ecc_uncorrected) and reading.ecc_uncorrected > 0:
        faults.append(f"{reading.ecc_uncorrected:.0f} {_ECC}")
    if not faults and not is_known(reading.xid) and not is_known(reading.ecc_uncorrected):
        return Unknown(UnknownReason.NOT_EXPORTED, "neither XID nor ECC errors are told")
    return tuple(faults)


def broken_devices(
    before: Mapping[DeviceKey, BrokenDevice], readings: Iterable[GpuReading], *, now_s: float
) -> Mapping[DeviceKey, BrokenDevice]:
    """Those that are broken now, given those ``before``.

    The last XID is all that is told of, so a later one, an application's, hides it: a device is well again when it
    tells of no error at all, as after a reset. Errors of a whole GPU are those of its MIG instances. One that is told
    of no more stays broken for ``REMEMBERED_S``.
    """
    told = tuple(readings)
    sliced = {(each.node, each.uuid) for each in told if each.gi is not None}
    of_the_gpu = {(each.node, each.uuid): each for each in told if each.gi is None}
    found = {key: each for key, each in before.items() if now_s - each.seen_s <= REMEMBERED_S}
    for each in told:
        place = (each.node, each.uuid)
        if each.gi is None and place in sliced:
            found.pop(each.key, None)  # its instances are the devices
            continue
        sources = [each] if each.gi is None or place not in of_the_gpu else [each, of_the_gpu[place]]
        faults = _faults(before.get(each.key), sources)
        if faults:
            found[each.key] = BrokenDevice(
                key=each.key, profile=each.profile, faults=faults, seen_s=now_s, names=each.names
            )
        else:
            found.pop(each.key, None)
    return found


def _faults(before: BrokenDevice | None, sources: Iterable[GpuReading]) -> tuple[str, ...]:
    faults: dict[str, None] = {}
    read = tuple(sources)
    for each in read:
        told = faults_of(each)
        faults.update(dict.fromkeys(() if isinstance(told, Unknown) else told))
    if before is not None:
        xid_free = all(each.xid == 0 for each in read if is_known(each.xid)) and any(
            is_known(each.xid) for each in read
        )
        ecc_told = any(is_known(each.ecc_uncorrected) for each in read)
        for fault in before.faults:
            over = ecc_told if fault.endswith(_ECC) else xid_free
            if not over:
                faults.setdefault(fault)
    return tuple(faults)
