"""Real engines, fetched once and shared by all tests on them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

_READY_WITHIN_S = 600.0
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


@pytest.fixture(scope="session")
def vllm_url(vllm_command: EngineCommand, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of one running vLLM server, shared by the tests that only look at it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    log = tmp_path_factory.mktemp("vllm") / "server.log"
    argv = [word.replace("{host}", "127.0.0.1").replace("{port}", port) for word in vllm_command.command]
    with log.open("wb") as output:
        server = subprocess.Popen(
            argv,
            env={**os.environ, **dict(vllm_command.env)},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _await_health(f"http://127.0.0.1:{port}/health", server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _await_health(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < deadline_s:
        if server.poll() is not None:
            break
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(1.0)
    pytest.fail(f"vLLM did not get ready; the end of its log:\n{log.read_text(errors='replace')[-4000:]}")
