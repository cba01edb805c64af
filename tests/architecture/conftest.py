"""The project's own files, as Git knows them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def tracked() -> tuple[Path, ...]:
    """Files under version control, from the root of the checkout."""
    listed = subprocess.run(("git", "ls-files", "-z"), cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout.decode()
    return tuple(Path(name) for name in listed.split("\0") if name and (ROOT / name).is_file())


@pytest.fixture(scope="session")
def root() -> Path:
    """Root of the checkout."""
    return ROOT
