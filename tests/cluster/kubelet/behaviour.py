"""How a pod behaves, told by its annotations. They may be changed while it lives; what they say holds from then on.

All begin with ``test.gpu-autoscaler.io/``:

``engine``: the emulator's flags; a real emulated engine then serves on the pod's address, at the first port that a
container names (8000 without one), and the pod is ready when its ``/health`` answers. ``pull-s``: seconds in
ContainerCreating.
``start-s``: seconds until a pod without an engine is ready, or exits. ``stop-s``: the least seconds that its end takes.
``exits``: it ends with this exit code after ``start-s``. ``hold``: "image" (ImagePullBackOff for ever) or "unready"
(runs, and never gets ready).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

PREFIX = "test.gpu-autoscaler.io/"


class Hold(StrEnum):
    """What a pod never gets past."""

    IMAGE = "image"
    UNREADY = "unready"


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """See the module. ``engine``: None where there is none; ``exits``: None where it does not end."""

    engine: tuple[str, ...] | None
    pull_s: float
    start_s: float
    stop_s: float
    exits: int | None
    hold: Hold | None


def behaviour_of(annotations: Mapping[str, str]) -> Behaviour:
    """Read annotations. Raises ValueError where one can't be read."""

    def told(name: str) -> str | None:
        return annotations.get(PREFIX + name)

    engine, exits, hold = told("engine"), told("exits"), told("hold")
    return Behaviour(
        engine=None if engine is None else tuple(shlex.split(engine)),
        pull_s=float(told("pull-s") or 0),
        start_s=float(told("start-s") or 0),
        stop_s=float(told("stop-s") or 0),
        exits=None if exits is None else int(exits),
        hold=None if hold is None else Hold(hold),
    )
