"""Devices as metrics of the controller's own."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from adapters.serving.device_metrics import DeviceCollector
from autoscaler.domain.cluster import Phase, Replica
from autoscaler.domain.gpu_reading import GpuReading
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.service import ServiceId
from autoscaler.policy.device_attribution import owned
from autoscaler.policy.device_health import broken_devices

NOBODY = Unknown(UnknownReason.NOT_EXPORTED)
GPUS = [
    GpuReading(uuid="GPU-0", at_s=1.0, holder=NOBODY, index="0", gpu_util=0.25, fb_used_mib=2.0, energy_j=5.0),
    GpuReading(uuid="GPU-1", at_s=1.0, holder=NOBODY, index="1", power_w=70.0, xid=79.0, recent_xids=(79,)),
]
CHAT = Replica(name="chat-a", service=ServiceId("chat"), variant="v", phase=Phase.READY, created_s=0.0, devices=("0",))


def test_each_device_with_its_replica_and_only_what_is_known() -> None:
    broken = broken_devices({}, GPUS, now_s=1.0).values()
    registry = CollectorRegistry()
    registry.register(DeviceCollector(lambda: owned(GPUS, [CHAT], broken)))
    common = {"node": "", "gi": "", "profile": ""}
    mine = {**common, "gpu": "0", "uuid": "GPU-0", "service": "chat", "replica": "chat-a"}
    lost = {**common, "gpu": "1", "uuid": "GPU-1", "service": "", "replica": ""}

    def told(name: str, labels: dict[str, str]) -> float | None:
        return registry.get_sample_value(f"gpu_autoscaler_device_{name}", labels)

    assert told("utilization_ratio", mine) == 0.25
    assert told("memory_used_bytes", mine) == 2 * 1024 * 1024
    assert told("energy_joules_total", mine) == 5
    assert told("utilization_ratio", lost) is None
    assert told("power_watts", lost) == 70
    assert (told("broken", mine), told("broken", lost)) == (0, 1)
    assert (told("last_xid", mine), told("last_xid", lost)) == (None, 79)
