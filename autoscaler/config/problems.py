"""What is wrong with a file, said so that it can be put right: where, what was given, what is allowed, what is near."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from autoscaler.config.document import Document, Mark, Path, Plain
from autoscaler.config.shape import Key, all_paths, key_at, root

_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong. ``path``: the key's, as ``services[0].slo.itl``; empty for the file itself."""

    path: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigError(Exception):
    """The file can't be used; ``problems`` has all that is wrong with it, in the order of its lines."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(sorted(problems, key=lambda each: (each.line, each.column, each.path, each.message)))
        super().__init__(source)

    def __str__(self) -> str:
        count = len(self.problems)
        lines = [f"{self.source}: {count} problem{'s' if count != 1 else ''}"]
        lines += [f"  {self.source}:{each.line}:{each.column}: {each}" for each in self.problems]
        return "\n".join(lines)


class UnreadableError(ConfigError):
    """There is no file to read, or it may not be read."""


def path_text(path: Iterable[str | int]) -> str:
    """``services[0].slo.itl``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def problem_at(document: Document, path: Path, message: str, *, at_key: bool = False) -> Problem:
    """A problem of the value at ``path``, or of its key."""
    mark = document.key_mark(path) if at_key else document.value_mark(path)
    return _problem(path, mark, message)


def document_problem(message: str, mark: Mark, path: Path = ()) -> Problem:
    """A problem of the YAML text."""
    return _problem(path, mark, message)


def value_problems(document: Document, error: ValidationError, base: Path, *, top: Key | None = None) -> list[Problem]:
    """The problems of one validated value that stands at ``base``; ``top``: the keys of the document (the file's)."""
    keys = top or root()
    return [_value_problem(document, details, base, keys) for details in error.errors(include_url=False)]


def failed_keys(document: Document, error: ValidationError, base: Path) -> frozenset[str]:
    """The keys directly below ``base`` that have a problem."""
    paths = [_real_path(document.data, (*base, *details["loc"]), details) for details in error.errors()]
    return frozenset(str(path[len(base)]) for path in paths if len(path) > len(base))


def _value_problem(document: Document, details: ErrorDetails, base: Path, top: Key) -> Problem:
    path = _real_path(document.data, (*base, *details["loc"]), details)
    kind = details["type"]
    if kind == "extra_forbidden":
        return problem_at(document, path, _unknown_key(path, top), at_key=True)
    key = key_at(path, top)
    form = _form(key)
    if kind == "missing":
        return problem_at(document, path[:-1], f"{path[-1]} is missing: {form}")
    if path and path[-1] == "[key]":
        return problem_at(document, path[:-1], f"{path[-2]} can't be a name here", at_key=True)
    if kind == "value_error" and key is not None and key.schema.get("type") == "object":
        return problem_at(document, path, str(details["ctx"]["error"]))
    given = "(hidden)" if key is not None and key.secret else shown(details["input"])
    reason = f" ({details['ctx']['error']})" if kind == "value_error" and "split" in details["msg"] else ""
    return problem_at(document, path, f"must be {form}; got {given}{reason}{_nearest_word(key, details['input'])}")


def _real_path(data: Plain, location: Path, details: ErrorDetails) -> Path:
    """``location`` without the steps that name a branch of a type and not a place in the file."""
    path: list[str | int] = []
    here: Plain = data
    for index, step in enumerate(location):
        last = index == len(location) - 1
        inside = _step(here, step)
        if inside is not None:
            here = inside.value
        elif not (last and (details["type"] == "missing" or step == "[key]")):
            continue
        path.append(step)
    return tuple(path)


def _form(key: Key | None) -> str:
    if key is None:
        return "a value of another kind"
    return f"{key.form}, such as {key.example}" if key.example else key.form


@dataclass(frozen=True, slots=True)
class _Inside:
    value: Plain


def _step(here: Plain, step: str | int) -> _Inside | None:
    if isinstance(here, dict) and isinstance(step, str) and step in here:
        return _Inside(here[step])
    if isinstance(here, list) and isinstance(step, int) and step < len(here):
        return _Inside(here[step])
    return None


def _unknown_key(path: Path, top: Key) -> str:
    name = str(path[-1])
    parent = key_at(path[:-1], top)
    siblings = [known for known, _ in parent.children()] if parent is not None else []
    near = difflib.get_close_matches(_folded(name), [_folded(known) for known in siblings], n=1, cutoff=0.6)
    if near:
        best = next(known for known in siblings if _folded(known) == near[0])
        return f"unknown key; did you mean {best}?"
    here = tuple(str(step) for step in path[:-1] if not isinstance(step, int))
    elsewhere = [known for known, _ in all_paths(top) if _folded(known[-1]) == _folded(name) and known[:-1] != here]
    if elsewhere:
        best_path = max(elsewhere, key=lambda known: (_shared(known, here), -len(known)))
        return f"unknown key here; it belongs to {'.'.join(best_path[:-1]) or 'the top of the file'}"
    return f"unknown key; known here: {', '.join(siblings)}"


def _nearest_word(key: Key | None, given: object) -> str:
    """A hint where one of a few words is asked for."""
    words = key.schema.get("enum", ()) if key is not None else ()
    folded = {_folded(str(word)): str(word) for word in words}
    near = difflib.get_close_matches(_folded(str(given)), folded, n=1, cutoff=0.6)
    return f"; did you mean {folded[near[0]]}?" if near else ""


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(1 for a, b in zip(one, other, strict=False) if a == b)


def shown(value: object) -> str:
    """A given value as text, cut to a readable length."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _problem(path: Path, mark: Mark, message: str) -> Problem:
    return Problem(path=path_text(path), line=mark.line, column=mark.column, message=message)
