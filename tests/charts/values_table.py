"""``python -m tests.charts.values_table``: write the table of values in the chart's README from values.yaml.

The comment above a key is its description; a comment above a group is the group's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "charts" / "gpu-autoscaler"
_BEGIN, _END = "<!-- values -->\n", "<!-- end of values -->\n"
_KEY = re.compile(r"^( *)([A-Za-z]\w*):(.*)$")


@dataclass(frozen=True, slots=True)
class Row:
    """One key: its path with dots, its default as JSON ("" for a group), what it means."""

    key: str
    default: str
    meaning: str


def rows(text: str) -> Iterator[Row]:
    """The keys of a values.yaml, top down; what is deeper than a default that is no group is left out."""
    values = yaml.safe_load(text)
    path: list[str] = []
    comment: list[str] = []
    closed_at: int | None = None
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            comment.append(stripped[1:].strip())
            continue
        found = _KEY.match(line)
        indent = len(line) - len(line.lstrip())
        if closed_at is not None and stripped and indent > closed_at:
            continue
        closed_at = None
        if not found:
            comment = []
            continue
        path = [*path[: indent // 2], found.group(2)]
        default = _at(values, path)
        group = isinstance(default, dict) and bool(default) and not _is_free(path)
        if not group:
            closed_at = indent
        yield Row(".".join(path), "" if group else json.dumps(default), " ".join(comment))
        comment = []


def table(text: str) -> str:
    """The table, as Markdown."""
    lines = ["| key | default | meaning |", "|---|---|---|"]
    for row in rows(text):
        default = f"`{row.default}`" if row.default else ""
        lines.append(f"| `{row.key}` | {default} | {row.meaning.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def with_table(readme: str, text: str) -> str:
    """The README with the table in its place."""
    before, rest = readme.split(_BEGIN)
    _, after = rest.split(_END)
    return f"{before}{_BEGIN}{table(text)}{_END}{after}"


def _at(values: Any, path: list[str]) -> Any:
    for name in path:
        values = values[name]
    return values


def _is_free(path: list[str]) -> bool:
    """Mappings whose keys are the user's."""
    return path[-1] in ("labels", "requests", "limits")


if __name__ == "__main__":
    place = CHART / "README.md"
    place.write_text(with_table(place.read_text(encoding="utf-8"), (CHART / "values.yaml").read_text(encoding="utf-8")))
