"""Rules that join several of the keys that every service has, in the file or in a cluster.

Each is told at the key that has to change; a key already refused is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from autoscaler.config.document import Path
from autoscaler.config.profiles import profile_of
from autoscaler.config.scaling_schema import IdleSection, KindSection, ScalingSection, StepTimeSection
from autoscaler.config.units import format_duration
from autoscaler.domain.service import Engine

Finding = tuple[Path, str]
SectionT_co = TypeVar("SectionT_co", bound=ScalingSection, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadScaling(Generic[SectionT_co]):
    """One service as far as it could be read.

    ``base``: the path at which its keys stand. ``refused``: its keys that could not be read, which hold stand-ins.
    """

    base: Path
    section: SectionT_co
    refused: frozenset[str]

    def path(self, *steps: str | int) -> Path:
        """The path of a key of this service."""
        return (*self.base, *steps)

    def reads(self, *keys: str) -> bool:
        """Whether all of these keys could be read."""
        return not self.refused.intersection(keys)


def scaling_findings(read: ReadScaling[ScalingSection], kinds: Sequence[KindSection]) -> Iterator[Finding]:
    """What is wrong within one service whose kinds of replica are ``kinds`` (its key ``variants``)."""
    yield from _bounds(read)
    yield from _deadline(read)
    if read.reads("variants"):
        names = ((kind.name, read.path("variants", index, "name")) for index, kind in enumerate(kinds))
        yield from duplicates(names, "is the name of another variant")
    if read.reads("stepTime", "variants"):
        yield from _step_times(read, kinds)


def scaling_warnings(section: ScalingSection) -> Iterator[str]:
    """What is allowed but hardly meant."""
    if section.min_replicas > 0 and section.idle != IdleSection():
        yield f"idle has no effect, minReplicas is {section.min_replicas}"
    if section.statistics is not None and section.engine is not Engine.TRITON:
        yield f"statistics has no effect, engine is {section.engine}: only Triton has them (engine: triton)"
    if section.spare >= section.max_replicas:
        yield f"spare {section.spare} keeps it at maxReplicas {section.max_replicas} always"


def duplicates(named: Iterator[tuple[str, Path]], message: str) -> Iterator[Finding]:
    """Names that were given before."""
    seen: set[str] = set()
    for name, path in named:
        if name in seen:
            yield path, f"{name} {message} above"
        seen.add(name)


def _bounds(read: ReadScaling[ScalingSection]) -> Iterator[Finding]:
    section = read.section
    if read.reads("minReplicas", "maxReplicas") and section.min_replicas > section.max_replicas:
        given = "max_replicas" in section.model_fields_set
        note = "" if given else " (its default; give maxReplicas too)"
        message = f"must be at most maxReplicas {section.max_replicas}{note}; got {section.min_replicas}"
        yield read.path("minReplicas"), message


def _deadline(read: ReadScaling[ScalingSection]) -> Iterator[Finding]:
    section = read.section
    if read.reads("startup", "startDeadline") and section.start_deadline < section.startup:
        key = "startDeadline" if "start_deadline" in section.model_fields_set else "startup"
        deadline, startup = format_duration(section.start_deadline), format_duration(section.startup)
        yield read.path(key), f"every start would fail: startDeadline {deadline} is shorter than startup {startup}"


def _step_times(read: ReadScaling[ScalingSection], kinds: Sequence[KindSection]) -> Iterator[Finding]:
    sections: list[tuple[StepTimeSection | None, Path]] = [(read.section.step_time, read.path("stepTime"))]
    sections += [(kind.step_time, read.path("variants", index, "stepTime")) for index, kind in enumerate(kinds)]
    for section, path in sections:
        if section is not None:
            yield from _step_time(section, path)


def _step_time(section: StepTimeSection, path: Path) -> Iterator[Finding]:
    terms = {"c": section.c, "d": section.d, "e": section.e, "a": section.a}
    missing = [name for name, value in terms.items() if value is None]
    if section.profile is not None:
        if len(missing) < len(terms):
            yield path, "give either a profile or the terms c, d, e, a; not both"
        else:
            try:
                profile_of(section.profile)
            except ValueError as error:
                yield (*path, "profile"), str(error)
    elif missing:
        yield path, f"needs a profile, or all of c, d, e, a; missing: {', '.join(missing)}"
    elif section.c == 0:
        yield (*path, "c"), "must be more than 0s"
