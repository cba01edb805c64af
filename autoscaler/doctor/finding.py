"""A finding: what was looked at, how bad it is, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from autoscaler.ports import PortError

T = TypeVar("T")


class Severity(StrEnum):
    """ERROR: something does not work. WARNING: it works worse than it could, or can't be told. OK: as it should be."""

    ERROR = "error"
    WARNING = "warning"
    OK = "ok"


class CheckId(StrEnum):
    """What is looked at; docs/doctor.md has a row for each."""

    API_SERVER = "api-server"
    VERSION = "version"
    DEFINITION = "definition"
    CLOCK = "clock"
    RIGHTS = "rights"
    LEADER = "leader"
    SPEC = "spec"
    TARGET = "target"
    OWNER = "owner"
    STATUS = "status"
    CONDITIONS = "conditions"
    METRICS = "metrics"
    PROMETHEUS = "prometheus"
    GATEWAY = "gateway"
    API_SERVICE = "api-service"
    CERTIFICATE = "certificate"
    HPA = "hpa"
    SCALED_OBJECT = "scaled-object"
    KEDA = "keda"
    NODE = "node"
    MIG = "mig"
    SHARING = "sharing"
    DEVICES = "devices"
    GRACE = "grace"
    READINESS = "readiness"
    DELETION_COST = "deletion-cost"
    NETWORK_POLICY = "network-policy"
    DISRUPTION_BUDGET = "disruption-budget"
    QUOTA = "quota"
    CONFIGURATION = "configuration"
    PORTS = "ports"
    COMMAND = "command"
    STATE_DIRECTORY = "state-directory"
    MACHINE_DEVICES = "machine-devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing found. ``subject``: the object that it is about. ``fix``: a command, a key or a step; empty: none."""

    check: CheckId
    severity: Severity
    subject: str
    message: str
    fix: str = ""


Findings = Iterator[Finding]


def error(check: CheckId, subject: str, message: str, fix: str) -> Finding:
    """Something does not work."""
    return Finding(check=check, severity=Severity.ERROR, subject=subject, message=message, fix=fix)


def warning(check: CheckId, subject: str, message: str, fix: str = "") -> Finding:
    """It works worse than it could, or can't be told."""
    return Finding(check=check, severity=Severity.WARNING, subject=subject, message=message, fix=fix)


def fine(check: CheckId, subject: str, message: str) -> Finding:
    """As it should be."""
    return Finding(check=check, severity=Severity.OK, subject=subject, message=message)


def of_each(check: CheckId, items: Iterable[tuple[str, T]], judge: Callable[[str, T], Findings]) -> Findings:
    """Findings on named objects, one after the other: one that can't be read holds only itself."""
    for subject, item in items:
        try:
            yield from judge(subject, item)
        except PortError as failure:
            yield warning(check, subject, f"can't be read: {failure}", f"look at it yourself: {subject}")
