"""What the controller's own ticks make of an engine's pages: its windows of measured load."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from autoscaler.compose import build_models
from autoscaler.domain.cluster import ClusterSnapshot, Phase, Replica, Target
from autoscaler.domain.params import Params
from autoscaler.domain.reading import EngineReading, Observations
from autoscaler.domain.service import Service, ServiceId, Slo, Variant
from autoscaler.domain.state import ControllerState
from autoscaler.policy.deciding import decide
from predictors.load_memory import LoadMemory

Array = NDArray[np.float64]

_VARIANT = "default"
# The objective plays no part in what is learned; a service must have one.
_SERVICE = Service(id=ServiceId("calibrated"), slo=Slo(itl_s=1.0), variants=(Variant(name=_VARIANT),))
_AT = 4


def windows(turns: Iterable[Sequence[EngineReading]], *, window_s: float) -> Array:
    """The windows of one load: rows as ``LoadMemory.loads``, one for each ``window_s`` of its turns.

    A tick is made on every page, oldest first. Request lengths are remembered from turn to turn, counters are not: a
    turn's first page is where its counting begins. Every window is returned; the controller itself forgets some.
    """
    models = build_models()
    params = Params(interval_s=window_s, short_window_s=window_s, stable_window_s=4 * window_s)
    state, found = ControllerState(services={}), [np.zeros((0, LoadMemory.empty().loads.shape[1]))]
    for readings in turns:
        services = {name: replace(each, increments=(), tracks={}) for name, each in state.services.items()}
        state = ControllerState(services=services)
        for reading in readings:
            _, state = decide(
                now_s=reading.at_s,
                state=state,
                services=(_SERVICE,),
                snapshot=_snapshot(reading, ready_s=reading.at_s - 2 * params.stable_window_s),
                observations=Observations(at_s=reading.at_s, engines={reading.replica: reading}, gateways={}),
                models=models,
                params=params,
            )
            loads = LoadMemory.of_arrays(state.services[_SERVICE.id].capacities[_VARIANT].arrays).loads
            found.append(loads[loads[:, _AT] == reading.at_s])
    return np.concatenate(found)


def _snapshot(reading: EngineReading, *, ready_s: float) -> ClusterSnapshot:
    """A cluster of this engine alone."""
    replica = Replica(
        name=reading.replica,
        service=_SERVICE.id,
        variant=_VARIANT,
        phase=Phase.READY,
        created_s=ready_s,
        ready_s=ready_s,
    )
    target = Target(service=_SERVICE.id, variant=_VARIANT, replicas=1)
    return ClusterSnapshot(at_s=reading.at_s, devices=(), replicas=(replica,), targets=(target,))
