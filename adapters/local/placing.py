"""Where a replica that has no process is put: devices and ports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from adapters.local.devices import choose_devices
from adapters.local.lifecycle import Pace, failed
from adapters.local.record import ReplicaRecord
from adapters.local.template import ReplicaTemplate
from autoscaler.domain.cluster import Device, Phase


def asked_for(template: ReplicaTemplate, *, name: str, now_s: float) -> ReplicaRecord:
    """A replica that was asked for and has no place yet."""
    return ReplicaRecord(
        name=name,
        service=template.service,
        variant=template.variant.name,
        phase=Phase.STARTING,
        created_s=now_s,
        grace_period_s=template.grace_period_s,
        ready_path=template.ready_path,
        metrics_path=template.metrics_path,
    )


def placed(
    record: ReplicaRecord,
    template: ReplicaTemplate,
    *,
    devices: Sequence[Device],
    others: Iterable[ReplicaRecord],
    find_port: Callable[[Collection[int]], int],
    now_s: float,
    pace: Pace,
) -> ReplicaRecord:
    """The record at the beginning of a start, with devices and ports; or still without a port, and why.

    What any of ``others`` holds is not free: also what a draining, a starting or a dying replica holds.
    """
    others = tuple(others)
    request = template.variant.devices
    given: tuple[str, ...] = ()
    if request is not None:
        held = {device for other in others for device in other.devices}
        chosen = choose_devices(devices, held=held, request=request)
        if chosen is None:
            return replace(record, detail=f"waits for {request.count} free {request.kind}")
        given = chosen
    further = [name for name in ("metrics_port", "grpc_port") if template.mentions(name)]
    try:
        taken = [port for other in others for port in other.held_ports]
        for _ in ("port", *further):
            taken.append(find_port(taken))
    except OSError as error:
        return failed(record, why=f"no port to be had: {error}", now_s=now_s, pace=pace)
    fresh = asked_for(template, name=record.name, now_s=now_s)
    port, *ports = taken[-1 - len(further) :]
    given_ports = dict(zip(further, ports, strict=True))
    return replace(
        fresh,
        port=port,
        metrics_port=given_ports.get("metrics_port"),
        grpc_port=given_ports.get("grpc_port"),
        devices=given,
        restarts=record.restarts,
        failures=record.failures,
    )
