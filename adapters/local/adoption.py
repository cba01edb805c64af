"""What a new controller makes of what an earlier one left: its state file, and processes that still run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from adapters.local.fleet_store import Fleet, VariantKey
from adapters.local.lifecycle import retire
from adapters.local.process import Marked
from adapters.local.record import ReplicaRecord
from autoscaler.codec import decode
from autoscaler.domain.cluster import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """The fleet to go on with, processes of ours that nobody could watch over, and what a person should know."""

    fleet: Fleet
    doomed: tuple[Marked, ...]
    notes: tuple[str, ...]


def adopt(
    kept: Fleet, *, running: Collection[str], marked: Sequence[Marked], variants: Collection[VariantKey], now_s: float
) -> Adopted:
    """Match the records with the processes that live. Pure.

    ``running``: names whose recorded process lives. ``marked``: living processes known by their mark alone, which
    covers a controller that died between a spawn and its record, and a lost state file. ``variants``: those that are
    configured; replicas of others are drained. Where no target is kept, the number of live replicas is the target, so
    that a lost file shrinks nothing. Stored times that lie in the future (the clock was stepped back) become ``now_s``.
    """
    by_name = {found.name: found for found in sorted(marked, key=lambda found: (found.name, found.process.pid))}
    records: dict[str, ReplicaRecord] = {}
    doomed: list[Marked] = []
    notes = []
    for name, record in sorted(kept.replicas.items()):
        records[name] = _continued(record, by_name.get(name), lives=name in running, now_s=now_s)
    for name, found in by_name.items():
        if name in records:
            continue
        try:
            records[name] = _recovered(found, now_s=now_s)
        except ValueError as error:
            doomed.append(found)
            notes.append(f"process {found.process.pid} of replica {name} is ended, since what it carries is {error}")
            continue
        notes.append(f"replica {name} (process {found.process.pid}) was found running without a record, and adopted")
    records = {
        name: record if (record.service, record.variant) in variants else _unwanted(record, now_s=now_s)
        for name, record in records.items()
    }
    live = Counter(
        (record.service, record.variant)
        for record in records.values()
        if record.process is not None and record.phase is not Phase.DRAINING
    )
    targets = {key: kept.targets.get(key, live[key]) for key in sorted(variants)}
    notes.extend(
        f"no target was kept for {service} ({variant}): its {live[service, variant]} running replicas are the target"
        for service, variant in sorted(variants)
        if (service, variant) not in kept.targets and live[service, variant]
    )
    fleet = replace(kept, targets=targets, replicas=records, last_numbers=_last_numbers(kept.last_numbers, records))
    return Adopted(fleet=fleet, doomed=tuple(doomed), notes=tuple(notes))


def _continued(record: ReplicaRecord, found: Marked | None, *, lives: bool, now_s: float) -> ReplicaRecord:
    if lives:
        # Nobody looked meanwhile: a start's end was not seen, and refusals are counted anew.
        watched = record.start_watched and record.phase is not Phase.STARTING
        record = replace(record, start_watched=watched, refusals=0, unready_since_s=None)
    elif found is not None and _is_later_start(found, record):
        # Spawned, but the controller ended before it wrote the number of the process down.
        return _recovered(found, now_s=now_s)
    elif record.process is None:
        record = replace(record, port=None, devices=())
    elif record.phase in (Phase.STARTING, Phase.READY):
        record = _lost(record, why="ended while no controller watched", now_s=now_s)
    return _not_in_future(record, now_s=now_s)


def _is_later_start(found: Marked, record: ReplicaRecord) -> bool:
    """Whether the process is the replica itself, and not a worker that outlived the process on record."""
    try:
        carried = decode(ReplicaRecord, found.record.encode())
    except ValueError:
        return False
    return record.process is None or carried.created_s != record.created_s


def _recovered(found: Marked, *, now_s: float) -> ReplicaRecord:
    """From the text that the process carries. Raises ValueError."""
    record = decode(ReplicaRecord, found.record.encode())
    if record.name != found.name:
        raise ValueError(f"the record of {record.name}")
    record = replace(_not_in_future(record, now_s=now_s), process=found.process, start_watched=False)
    if found.whole:
        return record
    return _lost(record, why="ended while no controller watched, and left processes behind", now_s=now_s)


def _lost(record: ReplicaRecord, *, why: str, now_s: float) -> ReplicaRecord:
    """FAILED with a process on record: what is left of it is ended, then the replica starts again."""
    restarts = record.restarts + 1
    return replace(record, phase=Phase.FAILED, restarts=restarts, retry_at_s=now_s, ready_s=None, detail=why)


def _unwanted(record: ReplicaRecord, *, now_s: float) -> ReplicaRecord:
    if record.phase is Phase.DRAINING:
        return record
    return replace(retire(record, now_s=now_s), detail="no longer configured")


def _not_in_future(record: ReplicaRecord, *, now_s: float) -> ReplicaRecord:
    def past(at_s: float | None) -> float | None:
        return None if at_s is None else min(at_s, now_s)

    return replace(
        record,
        created_s=min(record.created_s, now_s),
        ready_s=past(record.ready_s),
        # A back-off that was running need not be waited for again.
        retry_at_s=past(record.retry_at_s),
        drain_since_s=past(record.drain_since_s),
        term_s=past(record.term_s),
    )


def _last_numbers(kept: Mapping[VariantKey, int], records: Mapping[str, ReplicaRecord]) -> dict[VariantKey, int]:
    """The kept numbers, raised above those of recovered replicas, so that no name is given twice."""
    numbers = dict(kept)
    for record in records.values():
        key = (record.service, record.variant)
        number = record.name.rpartition("-")[2]
        if number.isdigit():
            numbers[key] = max(numbers.get(key, 0), int(number))
    return numbers
