"""The fleet in the state file: targets, replicas, measured starts and used names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from adapters.local.database import Database, StateLostError, Statement
from adapters.local.record import ReplicaRecord
from autoscaler.codec import decode, encode
from autoscaler.domain.service import ServiceId

VariantKey = tuple[ServiceId, str]

_STARTS_KEPT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What is kept. ``starts_s``: start-up times, oldest first. ``last_numbers``: the newest replica's number."""

    targets: Mapping[VariantKey, int] = field(default_factory=dict)
    replicas: Mapping[str, ReplicaRecord] = field(default_factory=dict)
    starts_s: Mapping[VariantKey, tuple[float, ...]] = field(default_factory=dict)
    last_numbers: Mapping[VariantKey, int] = field(default_factory=dict)


class FleetStore:
    """Writes what changed since the last time; all of it again when the file was lost meanwhile."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept = Fleet()
        self._generation = database.generation

    def load(self) -> Fleet:
        """What the last controller kept; a replica that can't be read is left out. Raises PortError."""
        replicas = {}
        for name, body in self._database.read("SELECT name, body FROM replicas ORDER BY name"):
            try:
                replicas[str(name)] = decode(ReplicaRecord, bytes(body))
            except ValueError as error:
                self._database.notices.append(f"replica {name} in the state file can't be read: {error}")
        starts: dict[VariantKey, tuple[float, ...]] = {}
        for service, variant, took_s in self._database.read("SELECT service, variant, took_s FROM starts ORDER BY id"):
            key = (ServiceId(str(service)), str(variant))
            starts[key] = (*starts.get(key, ()), float(took_s))
        self._kept = Fleet(
            targets=self._counts("SELECT service, variant, replicas FROM targets"),
            replicas=replicas,
            starts_s=starts,
            last_numbers=self._counts("SELECT service, variant, last FROM names"),
        )
        return self._kept

    def keep(self, fleet: Fleet) -> None:
        """Make the file say ``fleet``, in one transaction. Raises PortError; then nothing of it was kept."""
        try:
            self._keep(fleet)
        except StateLostError:
            self._keep(fleet)

    def _keep(self, fleet: Fleet) -> None:
        if self._generation != self._database.generation:
            self._kept, self._generation = Fleet(), self._database.generation
        statements = [*self._changed_rows(fleet), *self._changed_starts(fleet)]
        if statements:
            self._database.write(statements)
        self._kept = fleet

    def _changed_rows(self, fleet: Fleet) -> list[Statement]:
        kept = self._kept
        statements: list[Statement] = []
        for (service, variant), count in fleet.targets.items():
            if kept.targets.get((service, variant)) != count:
                statements.append(("REPLACE INTO targets VALUES (?, ?, ?)", (service, variant, count)))
        for service, variant in kept.targets.keys() - fleet.targets.keys():
            statements.append(("DELETE FROM targets WHERE service = ? AND variant = ?", (service, variant)))
        for (service, variant), number in fleet.last_numbers.items():
            if kept.last_numbers.get((service, variant)) != number:
                statements.append(("REPLACE INTO names VALUES (?, ?, ?)", (service, variant, number)))
        for name, record in fleet.replicas.items():
            if kept.replicas.get(name) != record:
                statements.append(("REPLACE INTO replicas VALUES (?, ?)", (name, encode(record))))
        gone = sorted(kept.replicas.keys() - fleet.replicas.keys())
        statements.extend(("DELETE FROM replicas WHERE name = ?", (name,)) for name in gone)
        return statements

    def _changed_starts(self, fleet: Fleet) -> list[Statement]:
        statements: list[Statement] = []
        for (service, variant), starts_s in fleet.starts_s.items():
            if self._kept.starts_s.get((service, variant)) == starts_s:
                continue
            statements.append(("DELETE FROM starts WHERE service = ? AND variant = ?", (service, variant)))
            statements.extend(
                ("INSERT INTO starts (service, variant, took_s) VALUES (?, ?, ?)", (service, variant, took_s))
                for took_s in starts_s[-_STARTS_KEPT:]
            )
        return statements

    def _counts(self, sql: str) -> dict[VariantKey, int]:
        return {
            (ServiceId(str(service)), str(variant)): int(count) for service, variant, count in self._database.read(sql)
        }
