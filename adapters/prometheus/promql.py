"""Queries as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
# What RE2 takes for more than a letter. re.escape would escape letters that RE2 doesn't let be escaped.
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")


def literal(text: str) -> str:
    """The pattern of this text alone."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def equal(label: str, value: str) -> str:
    """A matcher of one value."""
    return f'{label}="{value.translate(_ESCAPES)}"'


def matching(label: str, pattern: str) -> str:
    """A matcher by a pattern of the whole value."""
    return f'{label}=~"{pattern.translate(_ESCAPES)}"'


def one_of(label: str, values: Iterable[str]) -> str:
    """A matcher of several values."""
    return matching(label, "|".join(sorted({literal(value) for value in values})))


def selector(matchers: Iterable[str], fixed: Mapping[str, str]) -> str:
    """Series that fulfil all matchers; ``fixed``: labels with their one value."""
    parts = [*matchers, *(equal(label, value) for label, value in sorted(fixed.items()))]
    return f"{{{','.join(parts)}}}"


def duration(seconds: float) -> str:
    """As a range is written, to the millisecond, never 0."""
    return f"{max(1, round(seconds * 1000))}ms"
