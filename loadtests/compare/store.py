"""Records in a folder, by the content of what was run: an interrupted comparison continues, a changed one runs anew."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from autoscaler.codec import decode, encode
from loadtests.compare.records import Record
from loadtests.compare.study import OurPolicy, Run

_ROOT = Path(__file__).resolve().parents[2]
# What runs depend on: a rival's on a fluid fleet, which is swept on arrays; others' in the simulated world; ours
# besides. Other code may change and records stay.
_SWEEP = ("loadtests/rivals", "loadtests/bounds", "loadtests/workloads")
_WORLD = (*_SWEEP, "adapters/simulation", "loadtests/simulation")
_CONTROLLER = ("autoscaler", "predictors")


class Store:
    """One file for each run. Writing is atomic, so several may work on one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, run: Run) -> Record | None:
        """The record of an equal run; None: there is none, or none that can be read."""
        file = self._file(run)
        try:
            return decode(Record, file.read_bytes())
        except (OSError, ValueError):
            return None

    def put(self, run: Run, record: Record) -> None:
        """Keep it."""
        file = self._file(run)
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(".fresh")
        fresh.write_bytes(encode(record))
        fresh.replace(file)

    def _file(self, run: Run) -> Path:
        return self._folder / f"{key_of(run)}.json"


def key_of(run: Run) -> str:
    """A text that differs wherever a record would."""
    if isinstance(run.policy, OurPolicy):
        code = code_of(_WORLD + _CONTROLLER)
    else:
        code = code_of(_SWEEP if run.case.engine is None else _WORLD)
    return hashlib.sha256(repr((run.case.name, run.case.fingerprint, run.policy, run.seed, code)).encode()).hexdigest()


@functools.cache
def code_of(folders: tuple[str, ...]) -> str:
    """Of all Python files below these folders of the project."""
    text = hashlib.sha256()
    for folder in folders:
        for file in sorted((_ROOT / folder).rglob("*.py")):
            text.update(str(file.relative_to(_ROOT)).encode())
            text.update(file.read_bytes())
    return text.hexdigest()
