"""All runs of a round over the cores of this machine, or of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

import joblib

from loadtests.compare.records import Record
from loadtests.compare.running import perform
from loadtests.compare.store import Store
from loadtests.compare.study import Run

# A longer list keeps the processes busier, a shorter one loses less to an interruption.
_RUNS_A_LIST = 4

Told = Callable[[Run, Record], None]


class BackendError(Exception):
    """The runs can't be spread as asked."""


def execute(runs: Sequence[Run], *, store: Store, jobs: int, backend: str, told: Told) -> list[Record]:
    """The records of ``runs``, in their order: those in the store, and the others made and stored as they come.

    ``jobs``: processes at once, -1 for one on each core. ``backend``: ``loky`` for this machine, ``ray`` for Ray.
    ``told``: called with every run that is there. Raises BackendError.
    """
    records = {index: record for index, run in enumerate(runs) if (record := store.get(run)) is not None}
    for index, record in records.items():
        told(runs[index], record)
    missing = [index for index in range(len(runs)) if index not in records]
    with _backend(backend, jobs):
        for index, record in _spread([(index, runs[index]) for index in missing], jobs=jobs, backend=backend):
            store.put(runs[index], record)
            records[index] = record
            told(runs[index], record)
    return [records[index] for index in range(len(runs))]


def _spread(numbered: Sequence[tuple[int, Run]], *, jobs: int, backend: str) -> Iterator[tuple[int, Record]]:
    """As they come, or where the backend only gives lists (Ray's) in lists of a few for each process."""
    tasks = [joblib.delayed(_numbered)(index, run) for index, run in numbered]
    if backend != "ray":
        yield from joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)(tasks)
        return
    several = _RUNS_A_LIST * joblib.effective_n_jobs(jobs)
    for begin in range(0, len(tasks), several):
        yield from joblib.Parallel(n_jobs=jobs, batch_size=1)(tasks[begin : begin + several])


def _numbered(index: int, run: Run) -> tuple[int, Record]:
    return index, perform(run)


def _backend(name: str, jobs: int) -> AbstractContextManager[object]:
    if name != "ray":
        return nullcontext() if jobs == 1 else joblib.parallel_config(backend=name)
    try:
        from ray.util.joblib import register_ray  # noqa: PLC0415  (only for who asks for it)
    except ImportError:
        raise BackendError("the Ray backend needs the package ray: pip install ray") from None
    register_ray()
    context: AbstractContextManager[object] = joblib.parallel_config(backend="ray")
    return context
