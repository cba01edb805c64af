"""The real command with real processes: a controller, its gateway and emulated vLLM replicas, on free ports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.local_stack import LocalStack


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[LocalStack]:
    """A stack in an empty folder; all its processes are gone at the end."""
    running = LocalStack(tmp_path)
    try:
        yield running
    finally:
        running.end()
