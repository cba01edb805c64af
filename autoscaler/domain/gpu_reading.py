"""What an exporter or the driver said of one GPU, MIG instance or partition."""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.domain.reading import Measured, Unknown, UnknownReason

NOT_MEASURED = Unknown(UnknownReason.NOT_EXPORTED)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PodName:
    """A pod, by its names."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class DeviceKey:
    """What stays the same of a device between two looks. ``gi``: "" for a whole GPU. ``uuid``: of the whole GPU."""

    node: str
    uuid: str
    gi: str = ""

    def __str__(self) -> str:
        name = f"{self.uuid} instance {self.gi}" if self.gi else self.uuid
        return f"{name} on {self.node}" if self.node else name


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One device at one moment.

    ``uuid``: of the whole GPU, also for an instance. ``index``: the GPU's number on its node, "" where not told.
    ``name``: as CUDA_VISIBLE_DEVICES takes it, "" where not told.
    ``gi``: MIG GPU instance or AMD partition, None for a whole GPU; ``profile``: as the exporter names it ("1g.10gb",
    "cpx"), which is not always right (dcgm-exporter#544). ``node``: as the exporter calls it.
    ``holder``: the one pod that has it; Unknown(SHARED) where several do, since no value can be given to one of them.

    ``gr_engine_active``, ``sm_active``, ``dram_active``, ``gpu_util``: fractions of the time (0 to 1), of an instance
    relative to it. ``fb_used_mib``, ``fb_total_mib``: memory. ``power_w``, ``energy_j`` (since the driver was loaded),
    ``pcie_bytes_per_s``, ``nvlink_bytes_per_s`` (both directions together): known of whole GPUs only.
    ``xid``: the last NVIDIA XID error, 0 for none; ``recent_xids``: all that are told of. ``ecc_uncorrected``:
    uncorrected memory errors since the driver was loaded.

    All but errors is known of a GPU or of its instances, never of both, so that nothing is counted twice.
    """

    uuid: str
    at_s: float
    holder: PodName | Unknown
    index: str = ""
    name: str = ""
    gi: str | None = None
    profile: str | None = None
    node: str = ""
    gr_engine_active: Measured = NOT_MEASURED
    sm_active: Measured = NOT_MEASURED
    dram_active: Measured = NOT_MEASURED
    gpu_util: Measured = NOT_MEASURED
    fb_used_mib: Measured = NOT_MEASURED
    fb_total_mib: Measured = NOT_MEASURED
    power_w: Measured = NOT_MEASURED
    energy_j: Measured = NOT_MEASURED
    pcie_bytes_per_s: Measured = NOT_MEASURED
    nvlink_bytes_per_s: Measured = NOT_MEASURED
    xid: Measured = NOT_MEASURED
    ecc_uncorrected: Measured = NOT_MEASURED
    recent_xids: tuple[int, ...] = ()

    @property
    def key(self) -> DeviceKey:
        """Which device it is."""
        return DeviceKey(node=self.node, uuid=self.uuid, gi=self.gi or "")

    @property
    def names(self) -> frozenset[str]:
        """All names by which it may be called on its node."""
        if self.gi is not None:
            return frozenset({f"{self.uuid}/{self.gi}", self.name} - {""})
        return frozenset({self.uuid, self.index, self.name} - {""})


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedDevice:
    """A device, the replica that has it ("" where no one has), and what is wrong with it, nothing where it is well."""

    reading: GpuReading
    service: str = ""
    replica: str = ""
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesRead:
    """The devices of one page or machine, and what looked odd."""

    devices: tuple[GpuReading, ...] = ()
    warnings: tuple[str, ...] = ()
