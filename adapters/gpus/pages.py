"""A page's devices, whichever exporter made it."""

from __future__ import annotations

from adapters.gpus import amd, dcgm
from adapters.gpus.samples import Samples
from autoscaler.domain.gpu_reading import DevicesRead

UNFIT = (
    "these are GPU metrics: shown, and used to leave out unhealthy devices, but alone unfit to scale on "
    "(a decoder at batch size 1 keeps gpu_util near 100 %, and fb_used stays flat); point it at the engine's page"
)


def sample_names() -> frozenset[str]:
    """The names of all samples that are read."""
    return dcgm.sample_names() | amd.sample_names()


def devices_on(samples: Samples, *, at_s: float) -> DevicesRead:
    """The devices of a page or of several; none where it's no GPU exporter's. Raises nothing."""
    kept = tuple(samples)
    nvidia, others = dcgm.dcgm_devices(kept, at_s=at_s), amd.amd_devices(kept, at_s=at_s)
    return DevicesRead(devices=(*nvidia.devices, *others.devices), warnings=(*nvidia.warnings, *others.warnings))
