"""Label selectors, as they stand in ``labelSelector``.

The grammar is that of apimachinery's pkg/labels/selector.go: requirements joined by commas, each ``k``, ``!k``,
``k=v``, ``k==v``, ``k!=v``, ``k in (a,b)``, ``k notin (a,b)``, ``k>1`` or ``k<1``; ``!=`` and ``notin`` hold where the
label is absent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

_MOST_CHARS = 4096
_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!<>(),]|[^=!<>(), \t\r\n]+|$)")
_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_MOST_INTEGER = 2**63 - 1
_END = ""


class SelectorError(ValueError):
    """Not a selector; the text says where and what was expected."""


class Operator(Enum):
    """How a requirement compares."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    ABSENT = "!"
    ABOVE = ">"
    BELOW = "<"


_WITH_ONE_VALUE = {
    "=": Operator.IN,
    "==": Operator.IN,
    "!=": Operator.NOT_IN,
    ">": Operator.ABOVE,
    "<": Operator.BELOW,
}
_WITH_VALUES = {"in": Operator.IN, "notin": Operator.NOT_IN}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """True if the labels meet it."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.ABSENT:
                return value is None
        number = None if value is None else _integer(value)
        bound = _integer(next(iter(self.values)))
        if number is None or bound is None:
            return False
        return number > bound if self.operator is Operator.ABOVE else number < bound


@dataclass(frozen=True, slots=True)
class Selector:
    """All of its requirements must hold; with none, everything matches."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True if the labels meet every requirement."""
        return all(requirement.holds(labels) for requirement in self.requirements)

    def mentions(self, key: str) -> bool:
        """True if a requirement is about the label."""
        return any(requirement.key == key for requirement in self.requirements)

    def only(self, key: str) -> str | None:
        """The one value that the label must have, None where several would do."""
        for requirement in self.requirements:
            if requirement.key == key and requirement.operator is Operator.IN and len(requirement.values) == 1:
                return next(iter(requirement.values))
        return None


@lru_cache(maxsize=1024)
def parse_selector(text: str) -> Selector:
    """Raises SelectorError."""
    if len(text) > _MOST_CHARS:
        raise SelectorError(f"a selector has at most {_MOST_CHARS} characters, got {len(text)}")
    return _Parser(text).selector()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def selector(self) -> Selector:
        requirements = []
        while self._next() != _END:
            requirements.append(self._requirement())
            if self._next() == _END:
                break
            self._expect(",")
            if self._next() == _END:
                raise SelectorError("a comma must be followed by a requirement, got the end of the selector")
        return Selector(tuple(requirements))

    def _requirement(self) -> Requirement:
        absent = self._next() == "!"
        if absent:
            self._take()
        key = self._word("a label's name")
        _check_key(key)
        if absent:
            return Requirement(key, Operator.ABSENT)
        if self._next() in (_END, ","):
            return Requirement(key, Operator.EXISTS)
        word = self._take()
        if word in _WITH_VALUES:
            return Requirement(key, _WITH_VALUES[word], self._values())
        if word not in _WITH_ONE_VALUE:
            raise SelectorError(f"after {key!r} one of =, ==, !=, in, notin, <, > must follow, got {word!r}")
        value = "" if self._next() in (_END, ",") else self._word(f"a value of {key!r}")
        _check_value(key, value)
        operator = _WITH_ONE_VALUE[word]
        if operator in (Operator.ABOVE, Operator.BELOW) and _integer(value) is None:
            raise SelectorError(f"{key!r} can be compared by {word} with a whole number only, got {value!r}")
        return Requirement(key, operator, frozenset((value,)))

    def _values(self) -> frozenset[str]:
        """``(a,b)``; nothing between two commas, or beside a parenthesis, is the empty value."""
        self._expect("(")
        if self._next() == ")":
            raise SelectorError("between ( and ) at least one value must stand")
        values = set()
        while True:
            value = "" if self._next() in (",", ")") else self._word("a value")
            _check_value("in (...)", value)
            values.add(value)
            if self._next() == ")":
                break
            self._expect(",")
        self._take()
        return frozenset(values)

    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _take(self) -> str:
        token = self._next()
        self._at += 1
        return token

    def _expect(self, token: str) -> None:
        taken = self._take()
        if taken != token:
            raise SelectorError(f"expected {token!r}, got {taken or 'the end of the selector'!r}")

    def _word(self, what: str) -> str:
        taken = self._take()
        if taken == _END or taken[0] in "=!<>(),":
            raise SelectorError(f"expected {what}, got {taken or 'the end of the selector'!r}")
        return taken


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not _PREFIX.fullmatch(prefix)):
        raise SelectorError(f"label {key!r}: what stands before the / must be a DNS name in lower case")
    if len(name) > 63 or not _NAME.fullmatch(name):
        raise SelectorError(
            f"label {key!r}: a name has 1 to 63 letters, digits, '-', '_' or '.', a letter or digit first and last"
        )


def _check_value(key: str, value: str) -> None:
    if len(value) > 63 or (value and not _NAME.fullmatch(value)):
        raise SelectorError(
            f"{key}: a value has at most 63 letters, digits, '-', '_' or '.', a letter or digit first and last, "
            f"got {value!r}"
        )


def _integer(value: str) -> int | None:
    if not (value.isascii() and value.isdigit()):
        return None
    number = int(value)
    return number if number <= _MOST_INTEGER else None
