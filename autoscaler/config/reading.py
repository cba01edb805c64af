"""A file's text -> its sections, or all that is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from autoscaler.config.document import Document, DocumentError, Path, Plain, parse_document
from autoscaler.config.problems import (
    ConfigError,
    Problem,
    document_problem,
    failed_keys,
    problem_at,
    value_problems,
)
from autoscaler.config.rules import ReadService, file_findings, service_findings
from autoscaler.config.scaling_rules import ReadScaling
from autoscaler.config.schema import FileSection
from autoscaler.config.service_schema import ServiceSection
from autoscaler.config.shape import root

_SECTION = TypeVar("_SECTION", bound=BaseModel)
# Stand-ins for required keys that were refused, so that the rules can still look at the rest.
_REQUIRED: dict[str, Plain] = {"name": "unnamed", "slo": {"e2e": 1}}
_STAND_IN: Plain = [_REQUIRED]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """A file as far as it could be read, and all that is wrong with it.

    ``section`` holds stand-ins for what was refused; it is the file's meaning only where there is no problem.
    ``refused``: the sections that could not be read.
    """

    section: FileSection
    document: Document
    problems: tuple[Problem, ...]
    refused: frozenset[str]


def read_file_section(data: bytes, *, source: str) -> ReadFile:
    """The file's sections and problems. Raises ConfigError where it is no YAML mapping at all.

    Services are validated one by one: the rules that join keys look at all that could be read, so that one wrong
    value does not hide the next.
    """
    try:
        document = parse_document(data)
    except DocumentError as error:
        raise ConfigError(source, [document_problem(error.message, error.mark)]) from error
    problems = [document_problem(message, mark, path) for path, mark, message in document.faults]
    top = {} if document.data is None else document.data
    if not isinstance(top, dict):
        message = "the file must be a mapping that begins with services:"
        raise ConfigError(source, [*problems, problem_at(document, (), message)])

    entries = top.get("services")
    listed = entries if isinstance(entries, list) else []
    services = _read_services(document, listed, problems)
    file, refused = _read(FileSection, document, {**top, "services": _STAND_IN} if listed else top, (), problems)
    if file is None:
        kept = {key: value for key, value in top.items() if key not in refused}
        file = FileSection.model_validate({**kept, "services": _STAND_IN} if listed else kept)
    if top.keys().isdisjoint({"services", "kubernetes"}):
        problems.append(problem_at(document, (), f"services is missing: {_services_form()}"))
    findings = [finding for service in services for finding in service_findings(service)]
    findings += file_findings(file, services, refused)
    problems += [problem_at(document, path, message) for path, message in findings]
    if services:
        file = file.model_copy(update={"services": [service.section for service in services]})
    return ReadFile(section=file, document=document, problems=tuple(problems), refused=refused)


def _services_form() -> str:
    key = root().child("services")
    return key.form if key is not None else ""


def _read_services(document: Document, entries: list[Plain], problems: list[Problem]) -> list[ReadService]:
    services = []
    for index, entry in enumerate(entries):
        path: Path = ("services", index)
        section, refused = _read(ServiceSection, document, entry, path, problems)
        if section is None:
            if not isinstance(entry, dict):
                continue
            kept = {key: value for key, value in entry.items() if key not in refused}
            section = ServiceSection.model_validate({**_REQUIRED, **kept})
        services.append(ReadScaling(base=path, section=section, refused=refused))
    return services


def _read(
    kind: type[_SECTION], document: Document, entry: Plain, path: Path, problems: list[Problem]
) -> tuple[_SECTION | None, frozenset[str]]:
    try:
        return kind.model_validate(entry), frozenset()
    except ValidationError as error:
        problems += value_problems(document, error, path)
        return None, failed_keys(document, error, path)
