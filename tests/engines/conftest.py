"""Real engines, fetched once and shared by all tests on them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from loadtests.triton_server import READY_PATH, TimedModel, TritonHome
from tests.engines import install_triton, install_vllm
from tests.engines.install_vllm import Launch

_READY_WITHIN_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTriton:
    """One Triton server with one model, and its three ports."""

    model: TimedModel
    http_port: int
    grpc_port: int
    metrics_port: int


@pytest.fixture(scope="session")
def vllm_command() -> Launch:
    """vLLM 0.32 on CPU with a tiny model, four sequences at once. Ready after 70 to 120 s, 4 GB of memory each."""
    return install_vllm.launch(install_vllm.RECIPE.install())


@pytest.fixture(scope="session")
def triton_home() -> TritonHome:
    """Triton with its Python backend. Ready after 2 s, 0.1 GB of memory each."""
    return TritonHome(install_triton.RECIPE.install())


@pytest.fixture(scope="session")
def triton(triton_home: TritonHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTriton]:
    """One running server, shared by the tests that only look at it or send it a little."""
    folder = tmp_path_factory.mktemp("triton")
    model = TimedModel(name="timed", alpha_s=0.05, beta_s=0.01)
    model.write(folder / "models")
    http_port, grpc_port, metrics_port = _free_ports(3)
    ports = {"port": str(http_port), "grpc_port": str(grpc_port), "metrics_port": str(metrics_port)}
    argv = [_filled(word, ports) for word in triton_home.command(folder / "models")]
    url = f"http://127.0.0.1:{http_port}{READY_PATH}"
    with _serving(argv, env=triton_home.env(), url=url, log=folder / "server.log"):
        yield RunningTriton(model=model, http_port=http_port, grpc_port=grpc_port, metrics_port=metrics_port)


@pytest.fixture(scope="session")
def vllm_on_a_core(vllm_command: Launch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a vLLM server that has one core, as it would have a GPU, and runs 16 sequences at once.

    Shared by the tests that look at it or send it load, one after the other.
    """
    (port,) = _free_ports(1)
    words = [_filled(word, {"port": str(port)}) for word in vllm_command.command]
    argv = ["taskset", "-c", "1", *words, "--max-num-seqs", "16", "--max-num-batched-tokens", "2048"]
    env = {**vllm_command.env, "OMP_NUM_THREADS": "1"}
    log = tmp_path_factory.mktemp("vllm-on-a-core") / "server.log"
    with _serving(argv, env=env, url=f"http://127.0.0.1:{port}/health", log=log):
        yield f"http://127.0.0.1:{port}"


def _free_ports(count: int) -> tuple[int, ...]:
    with contextlib.ExitStack() as opened:
        probes = [opened.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return tuple(int(probe.getsockname()[1]) for probe in probes)


def _filled(word: str, ports: Mapping[str, str]) -> str:
    for name, value in {"host": "127.0.0.1", **ports}.items():
        word = word.replace(f"{{{name}}}", value)
    return word


@contextlib.contextmanager
def _serving(argv: Sequence[str], *, env: Mapping[str, str], url: str, log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        server = subprocess.Popen(
            argv, env={**os.environ, **env}, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        _await_health(url, server, log)
        yield
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
    pytest.fail(f"the engine did not get ready; the end of its log:\n{log.read_text(errors='replace')[-4000:]}")
