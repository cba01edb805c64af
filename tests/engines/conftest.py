"""Real engines, fetched once and shared by all tests on them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

_INSTALLER = Path(__file__).parent / "install_vllm.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCommand:
    """How a replica of a real engine is started.

    ``command``: argv with the placeholders {host} and {port}, as a ``ReplicaTemplate`` takes it. ``env``: added to
    the environment. ``model``: the name by which clients ask for it.
    """

    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    model: str


@pytest.fixture(scope="session")
def vllm_command() -> EngineCommand:
    """vLLM 0.32 on CPU with a tiny model, four sequences at once. Ready after 70 to 120 s, 4 GB of memory each."""
    run = subprocess.run([sys.executable, str(_INSTALLER)], check=True, stdout=subprocess.PIPE)
    told = json.loads(run.stdout)
    return EngineCommand(
        command=tuple(told["command"]), env=tuple(sorted(told["env"].items())), model=str(told["model"])
    )
