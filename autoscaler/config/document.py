"""A YAML file as plain values that remember their lines.

YAML 1.2's core words only (``on`` is text, ``010`` is ten). Refused with a line: keys given twice, tags, several
documents, a file that is too large, nests too deep or grows too large through its anchors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

Plain = bool | int | float | str | list["Plain"] | dict[str, "Plain"] | None
Path = tuple[str | int, ...]

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 24
MAX_VALUES = 300_000

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]{1,32}|[0-9]{1,32}(\.[0-9]{0,32})?)([eE][-+]?[0-9]{1,3})?")
_INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_TEXT_TAG = "tag:yaml.org,2002:str"


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in the file; line and column count from 1."""

    line: int
    column: int


class DocumentError(Exception):
    """The text is no usable YAML document: what is wrong, and where."""

    def __init__(self, message: str, mark: Mark) -> None:
        super().__init__(message)
        self.message = message
        self.mark = mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Plain values, and where each value and each key stands. ``faults``: what is wrong but did not end the reading."""

    data: Plain
    values: dict[Path, Mark]
    keys: dict[Path, Mark]
    faults: tuple[tuple[Path, Mark, str], ...]

    def value_mark(self, path: Path) -> Mark:
        """Where the value at ``path`` stands, or the nearest value around it that does stand somewhere."""
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, Mark(1, 1))

    def key_mark(self, path: Path) -> Mark:
        """Where the key at the end of ``path`` stands."""
        return self.keys.get(path) or self.value_mark(path)


@dataclass(slots=True)
class _Node:
    """A node of the file. ``value``: a scalar, a list of nodes, or a mapping from key to its mark and node."""

    mark: Mark
    value: bool | int | float | str | list[_Node] | dict[str, tuple[Mark, _Node]] | None
    complete: bool = True


def parse_document(data: bytes) -> Document:
    """Read one YAML document. Raises DocumentError."""
    if len(data) > MAX_BYTES:
        raise DocumentError(f"the file is larger than {MAX_BYTES // 2**20} MiB", Mark(1, 1))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise DocumentError(f"not UTF-8 text (byte 0x{data[error.start]:02x})", Mark(line, 1)) from error
    composer = _Composer(text)
    try:
        root = composer.compose()
    except yaml.MarkedYAMLError as error:
        where = error.problem_mark or error.context_mark
        mark = Mark(where.line + 1, where.column + 1) if where else Mark(1, 1)
        begun = f", {error.context} in line {error.context_mark.line + 1}" if error.context_mark else ""
        raise DocumentError(f"not YAML: {error.problem or 'unreadable'}{begun}", mark) from error
    except yaml.YAMLError as error:
        raise DocumentError(f"not YAML: {error}", Mark(1, 1)) from error
    expansion = _Expansion()
    plain = expansion.plain(root, ())
    return Document(data=plain, values=expansion.values, keys=expansion.keys, faults=tuple(composer.faults))


class _Composer:
    """Events of the YAML parser -> nodes."""

    def __init__(self, text: str) -> None:
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=_LOADER)
        self._anchors: dict[str, _Node] = {}
        self.faults: list[tuple[Path, Mark, str]] = []

    def compose(self) -> _Node:
        root = _Node(Mark(1, 1), None)
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise DocumentError("a second document starts here; the file must hold one", _mark(event))
                root = self._node(next(self._events), ())
        return root

    def _node(self, event: yaml.Event, path: Path) -> _Node:
        mark = _mark(event)
        if isinstance(event, yaml.AliasEvent):
            target = self._anchors.get(event.anchor or "")
            if target is None:
                raise DocumentError(f"the anchor &{event.anchor} is not defined above", mark)
            if not target.complete:
                raise DocumentError(f"the anchor &{event.anchor} contains itself", mark)
            return target
        if len(path) > MAX_DEPTH:
            raise DocumentError(f"nested deeper than {MAX_DEPTH} levels", mark)
        node = _Node(mark, None, complete=False)
        anchor = getattr(event, "anchor", None)
        if anchor is not None:
            self._anchors[anchor] = node
        self._check_tag(event, path, mark)
        if isinstance(event, yaml.SequenceStartEvent):
            node.value = self._sequence(path)
        elif isinstance(event, yaml.MappingStartEvent):
            node.value = self._mapping(path)
        elif isinstance(event, yaml.ScalarEvent):
            plain = event.implicit[0] and event.tag is None
            node.value = resolve(event.value) if plain else event.value
        node.complete = True
        return node

    def _check_tag(self, event: yaml.Event, path: Path, mark: Mark) -> None:
        tag = getattr(event, "tag", None)
        if tag not in (None, "!", _TEXT_TAG):
            self.faults.append((path, mark, f"tags such as {tag} have no meaning here"))

    def _sequence(self, path: Path) -> list[_Node]:
        items: list[_Node] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, (*path, len(items))))
        return items

    def _mapping(self, path: Path) -> dict[str, tuple[Mark, _Node]]:
        entries: dict[str, tuple[Mark, _Node]] = {}
        merged: dict[str, tuple[Mark, _Node]] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key_mark = _mark(event)
            if not isinstance(event, yaml.ScalarEvent):
                raise DocumentError("a key must be a single word", key_mark)
            key = event.value
            value = self._node(next(self._events), (*path, key))
            if key == "<<":
                merged = self._merge(value, path) | merged
            elif key in entries:
                first = entries[key][0].line
                self.faults.append(((*path, key), key_mark, f"given twice (first in line {first})"))
            else:
                entries[key] = (key_mark, value)
        return merged | entries

    def _merge(self, value: _Node, path: Path) -> dict[str, tuple[Mark, _Node]]:
        sources = value.value if isinstance(value.value, list) else [value]
        merged: dict[str, tuple[Mark, _Node]] = {}
        for source in sources:
            if isinstance(source.value, dict):
                merged = source.value | merged
            else:
                self.faults.append(((*path, "<<"), source.mark, "must name a mapping (or a list of them) to merge"))
        return merged


@dataclass(slots=True)
class _Expansion:
    """Nodes -> plain values, anchors written out."""

    values: dict[Path, Mark] = field(default_factory=dict)
    keys: dict[Path, Mark] = field(default_factory=dict)
    left: int = MAX_VALUES

    def plain(self, node: _Node, path: Path) -> Plain:
        self.left -= 1
        if self.left < 0:
            raise DocumentError(f"with its anchors written out the file holds over {MAX_VALUES} values", node.mark)
        if len(path) > MAX_DEPTH:
            raise DocumentError(f"nested deeper than {MAX_DEPTH} levels", node.mark)
        self.values[path] = node.mark
        value = node.value
        if isinstance(value, list):
            return [self.plain(item, (*path, index)) for index, item in enumerate(value)]
        if isinstance(value, dict):
            plain: dict[str, Plain] = {}
            for key, (mark, item) in value.items():
                self.keys[(*path, key)] = mark
                plain[key] = self.plain(item, (*path, key))
            return plain
        return value


def write_document(plain: Plain) -> str:
    """YAML that ``parse_document`` reads as ``plain``."""
    text: str = yaml.dump(plain, Dumper=_Dumper, sort_keys=False, width=110)
    return text


class _Dumper(yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper):  # type: ignore[misc]
    """Quotes text that would be read as something else, such as 1e3."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(_TEXT_TAG, text, style=None if resolve(text) == text else "'")


_Dumper.add_representer(str, _represent_text)


def resolve(text: str) -> bool | int | float | str | None:
    """The value of an unquoted word, by YAML 1.2's core schema (decimal numbers only)."""
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text[0] in "tT"
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _INFINITE.fullmatch(text):
        return math.nan if "n" in text.lower()[-3:-2] else math.copysign(math.inf, -1 if text[0] == "-" else 1)
    return text


def _mark(event: yaml.Event) -> Mark:
    start = event.start_mark
    return Mark(start.line + 1, start.column + 1) if start is not None else Mark(1, 1)
