"""A command imports what it needs and no more: heavy libraries would make every one of them slow to start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    *("aiohttp", "cattrs", "cryptography", "fastapi", "google", "grpc", "kubernetes", "numpy", "prometheus_client"),
    *("hpack", "psutil", "scipy", "sqlite3", "uvicorn"),
}
# The metrics pages' grammar is prometheus_client's.
FOR_PAGES = {"prometheus_client"}


def imported(*arguments: str) -> set[str]:
    """The heavy libraries in a process that has run a command."""
    ends = "atexit.register(lambda: print(*sys.modules))"
    program = f"import atexit, sys; from autoscaler.cli import main; {ends}; main()"
    done = subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True, text=True)
    return {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()} & HEAVY


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--help"], id="help"),
        pytest.param(["version"], id="version"),
        pytest.param(["run", "--help"], id="help of the heaviest"),
        pytest.param(["doctor", "--help"], id="help of doctor"),
        pytest.param(["manifests", "hpa", "--help"], id="help of manifests"),
    ],
)
def test_commands_import_no_more_than_they_need(arguments: list[str]) -> None:
    assert imported(*arguments) == set()


def test_a_page_in_a_file_is_read_without_an_http_client(root: Path) -> None:
    page = next((root / "tests/fixtures/scrapes").glob("vllm*.prom"))
    assert imported("read", str(page)) == FOR_PAGES
