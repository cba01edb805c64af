"""Samples as this package takes them: whoever parsed the page, or asked Prometheus, hands them over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class LabelledSeries(Protocol):
    """A sample's name, as the page prints it, and its labels by name."""

    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> tuple[tuple[str, str], ...]: ...


Samples = Iterable[tuple[LabelledSeries, float]]

# Older dcgm-exporters print this in a value's place; one such line would make the whole page unreadable.
_FAILED = b"ERROR - FAILED TO CONVERT TO STRING"


def without_failed_values(body: bytes) -> bytes:
    """The page without the lines that have dcgm-exporter's complaint where a value should be."""
    if _FAILED not in body:
        return body
    return b"".join([line for line in body.splitlines(keepends=True) if not line.rstrip().endswith(_FAILED)])
