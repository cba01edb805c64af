"""Pages of GPU exporters, and reading them as the program does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.engines.exposition import PageParser
from adapters.gpus.pages import devices_on
from adapters.gpus.samples import without_failed_values
from autoscaler.domain.gpu_reading import DevicesRead

PAGES = Path(__file__).parents[1] / "fixtures" / "gpu_pages"
AT_S = 1000.0

ReadPage = Callable[[str], DevicesRead]


def read_text(text: str, *, at_s: float = AT_S) -> DevicesRead:
    """The devices of a page with all its series parsed."""
    page = PageParser().parse(without_failed_values(text.encode()))
    return devices_on(zip(page.series, page.values, strict=True), at_s=at_s)


@pytest.fixture(scope="session")
def read_page() -> ReadPage:
    """Reads a page of the fixtures by its name."""

    def read(name: str) -> DevicesRead:
        return read_text((PAGES / f"{name}.prom").read_text())

    return read
