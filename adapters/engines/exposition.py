"""Prometheus text pages to samples, fast when the same page comes again with other values.

A page is split into lines. What stands before a value names a series; it is looked up in a cache of parsed series and
``prometheus_client``'s parser reads it only the first time it is seen. Series nobody asked for are recognised by
their name and go no further. The ``Skeleton`` of a page is all of it but the values: a later page with the same
skeleton needs no look-up at all, only ``float`` of the values wanted (``Selector``).

The format: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from operator import itemgetter

from prometheus_client.parser import text_string_to_metric_families

from adapters.engines.cache import BoundedCache
from autoscaler.domain.reading import UnknownReason

MAX_LINES = 200_000
MAX_LINE_BYTES = 16 * 1024
MAX_WANTED_BYTES = 2 * 1024 * 1024
_ENTRY_BYTES = 400  # what Python itself needs to keep one series or line, about

_BRACE = ord("{")
_NAME = re.compile(rb"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)[{ \t]")
_HEAD = re.compile(
    rb"""\s*+(?:[a-zA-Z_:][a-zA-Z0-9_:]*+)?[ \t]*+      # a name, unless it is quoted within the braces
         (?:\{(?:[^"}]|"(?:[^"\\]|\\.)*+")*+\})?[ \t]*+   # labels; braces and escaped quotes may stand within quotes
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_VALUE_AND_TIMESTAMP = re.compile(rb"[ \t]*([^\s_#{]+)(?:[ \t]+([^\s_#{]+))?[ \t\r]*")


class UnreadablePageError(ValueError):
    """The page can't be read as a whole; ``reason`` says in which way."""

    def __init__(self, reason: UnknownReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Series:
    """A sample's name, as the page prints it, and its labels by name."""

    name: str
    labels: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        labels = ",".join([f'{name}="{value.translate(_ESCAPES)}"' for name, value in self.labels])
        return f"{self.name}{{{labels}}}" if labels else self.name

    def brief(self) -> str:
        """The series in at most 200 characters, for messages."""
        text = str(self)
        return text if len(text) <= 200 else f"{text[:197]}..."


@dataclass(frozen=True, slots=True)
class Skeleton:
    """All of a page that stays while its values change.

    ``prefixes``: per line, what it starts with: a wanted series up to its value, the name of an unwanted one, "#" of
    a comment, a TYPE comment or a blank line entirely. ``exact``: indexes of the lines that are nothing but their
    prefix. ``wanted``: line index of each wanted series, in page order.
    """

    prefixes: tuple[bytes, ...]
    exact: tuple[int, ...]
    wanted: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """About what keeping it takes; names of unwanted series are shared between pages and not counted."""
        return 8 * len(self.prefixes) + sum([len(self.prefixes[i]) + _ENTRY_BYTES for i in self.wanted])


@dataclass(frozen=True, slots=True)
class Page:
    """A page read in full: wanted series with their values, duplicates included; all sample names; declared types."""

    skeleton: Skeleton
    series: tuple[Series, ...]
    values: tuple[float, ...]
    names: tuple[str, ...]
    types: dict[str, str]


class PageParser:
    """Reads pages and remembers the series it has met. Not for use from two threads at once."""

    def __init__(
        self,
        wanted: Collection[str] | None = None,
        *,
        cache_bytes: int = 32 * 1024 * 1024,
        max_wanted_bytes: int = MAX_WANTED_BYTES,
    ) -> None:
        """``wanted``: the sample names to read, None for all. ``max_wanted_bytes``: of their lines in a page."""
        self._max_wanted_bytes = max_wanted_bytes
        self._wanted = None if wanted is None else frozenset(name.encode() for name in wanted)
        self._known: BoundedCache[bytes, Series] = BoundedCache(limit_bytes=cache_bytes)
        self._names: BoundedCache[bytes, bytes] = BoundedCache(limit_bytes=cache_bytes // 8)

    @property
    def held_bytes(self) -> int:
        """About how much the caches hold."""
        return self._known.held_bytes + self._names.held_bytes

    def parse(self, body: bytes) -> Page:
        """All of one page. Raises UnreadablePageError."""
        if body and not body.endswith(b"\n"):
            raise UnreadablePageError(UnknownReason.MALFORMED_PAGE, "ends inside a line: cut short?")
        if body.count(b"\n") > MAX_LINES:
            raise UnreadablePageError(UnknownReason.PAGE_TOO_LARGE, f"more than {MAX_LINES} lines")
        prefixes: list[bytes] = []
        exact: list[int] = []
        wanted: list[int] = []
        series: list[Series] = []
        values: list[float] = []
        names: dict[bytes, None] = {}
        types: dict[str, str] = {}
        wanted_bytes = 0
        for index, line in enumerate(body.split(b"\n")):
            content = line.lstrip()
            if not content or content.startswith(b"#"):
                prefix = _comment_prefix(line, content, types)
                if prefix is line:
                    exact.append(index)
                prefixes.append(self._shared(prefix))
                continue
            match = _NAME.match(line)
            name = match.group(1) if match else b""
            if match and self._wanted is not None and name not in self._wanted:
                if line[match.end() - 1] != _BRACE and _plain_value(line[match.end() :]) is None:
                    _read_with_library(line)  # raises where it's prose, not a sample
                prefixes.append(self._shared(match.group()))
                names[name] = None
                continue
            wanted_bytes += len(line)
            if len(line) > MAX_LINE_BYTES or wanted_bytes > self._max_wanted_bytes:
                raise UnreadablePageError(UnknownReason.PAGE_TOO_LARGE, self._too_large(len(line)))
            prefix, one, value = self._sample(line)
            names[one.name.encode()] = None
            prefixes.append(prefix)
            if self._wanted is None or one.name.encode() in self._wanted:
                wanted.append(index)
                series.append(one)
                values.append(value)
        skeleton = Skeleton(tuple(prefixes), tuple(exact), tuple(wanted))
        spelled = tuple([name.decode() for name in names])
        return Page(skeleton, tuple(series), tuple(values), spelled, types)

    def _sample(self, line: bytes) -> tuple[bytes, Series, float]:
        """Prefix, series and value of a line. Raises UnreadablePageError."""
        head = _HEAD.match(line)
        prefix = head.group() if head else b""
        value = _plain_value(line[len(prefix) :])
        if value is None:  # an exemplar, or no sample at all: the line is read as a whole each time
            return (prefix, *_read_with_library(line))
        known = self._known.get(prefix)
        if known is None:
            known, _ = _read_with_library(line)
            self._known.put(prefix, known, size_bytes=2 * len(prefix) + _ENTRY_BYTES)
        return prefix, known, value

    def _too_large(self, line_bytes: int) -> str:
        if line_bytes > MAX_LINE_BYTES:
            return f"a line of {line_bytes} bytes (at most {MAX_LINE_BYTES})"
        return f"more than {self._max_wanted_bytes} bytes of series that are read"

    def _shared(self, prefix: bytes) -> bytes:
        """The one copy of a text that many pages repeat."""
        known = self._names.get(prefix)
        if known is None:
            self._names.put(prefix, prefix, size_bytes=len(prefix) + _ENTRY_BYTES)
            return prefix
        return known


class Selector:
    """Takes chosen values out of pages that share one skeleton."""

    def __init__(self, skeleton: Skeleton, chosen: Sequence[int]) -> None:
        """``chosen``: indexes into the wanted series, in the order in which their values are to come."""
        lines = [skeleton.wanted[index] for index in chosen]
        self._prefixes = skeleton.prefixes
        self._exact_lines = _picker(skeleton.exact)
        self._exact = self._exact_lines(skeleton.prefixes)
        self._chosen_lines = _picker(lines)
        self._lengths = tuple([len(skeleton.prefixes[line]) for line in lines])

    def values(self, body: bytes) -> list[float] | None:
        """The chosen values; None where the page has another skeleton or values that need a closer look."""
        lines = body.split(b"\n", len(self._prefixes))
        if (
            len(lines) != len(self._prefixes)
            or not all(map(bytes.startswith, lines, self._prefixes))
            or self._exact_lines(lines) != self._exact
        ):
            return None
        texts = [line[length:] for line, length in zip(self._chosen_lines(lines), self._lengths, strict=True)]
        different = set(texts)  # far fewer: the upper buckets of a histogram all hold its count
        if b"_" in b"".join(different):  # Python reads 1_000 as a number, Prometheus does not
            return None
        try:
            numbers = dict(zip(different, map(float, different), strict=True))
        except ValueError:
            return None
        return list(map(numbers.__getitem__, texts))


def _picker(indexes: Sequence[int]) -> Callable[[Sequence[bytes]], tuple[bytes, ...]]:
    """``itemgetter``, but always with a tuple as its answer."""
    if len(indexes) < 2:
        return lambda lines: tuple([lines[index] for index in indexes])
    return itemgetter(*indexes)


def _comment_prefix(line: bytes, content: bytes, types: dict[str, str]) -> bytes:
    """What must stay for the page to mean the same; ``line`` itself where all of it must. Notes a TYPE in ``types``."""
    if not content:
        return line
    words = content.split(None, 3)
    if words[:2] != [b"#", b"TYPE"]:
        return line[: len(line) - len(content) + 1]
    if len(words) < 4:
        raise UnreadablePageError(UnknownReason.MALFORMED_PAGE, f"TYPE without a type: {_shown(line)}")
    types.setdefault(_text(words[2]).strip('"'), _text(words[3]).strip())
    return line


def _plain_value(rest: bytes) -> float | None:
    """The value of "VALUE" or "VALUE TIMESTAMP"; None where there is more, or no number."""
    match = _VALUE_AND_TIMESTAMP.fullmatch(rest)
    if match is None:
        return None
    value, timestamp = match.groups()
    try:
        float(timestamp or b"0")
        return float(value)
    except ValueError:
        return None


def _read_with_library(line: bytes) -> tuple[Series, float]:
    try:
        (family,) = text_string_to_metric_families(_text(line))
        (sample,) = family.samples
    except (ValueError, IndexError) as error:
        raise UnreadablePageError(UnknownReason.MALFORMED_PAGE, f"not a sample: {_shown(line)}") from error
    try:
        value = float(sample.value)
    except OverflowError:  # the library reads digits as an int of any size
        value = float("inf") if sample.value > 0 else float("-inf")
    return Series(sample.name, tuple(sorted(sample.labels.items()))), value


def _text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise UnreadablePageError(UnknownReason.MALFORMED_PAGE, f"not UTF-8: {_shown(line)}") from error


def _shown(line: bytes) -> str:
    return repr(line[:80])[1:] + ("..." if len(line) > 80 else "")


def declared_type(types: dict[str, str], family: str) -> str | None:
    """The TYPE of a family, where the page declares one that says something (OpenMetrics drops ``_total``)."""
    kind = types.get(family) or types.get(family.removesuffix("_total"))
    return None if kind in ("untyped", "unknown") else kind
