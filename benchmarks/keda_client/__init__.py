"""A client of the external scaler that is KEDA's: grpc-go and KEDA's stubs, in the versions of the test cluster.

KEDA is a program in Go, so this measures what it would. It is built by the Go toolchain once for each content.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.cluster.build import SOURCES, cache_directory

_SOURCE = Path(__file__).with_name("main.go")
_MODULE = SOURCES / "keda"


class NoClientError(RuntimeError):
    """There is no such client here. The message says why."""


def built() -> Path:
    """The program, built if need be. Raises NoClientError."""
    digest = hashlib.sha256(
        _SOURCE.read_bytes() + (_MODULE / "go.mod").read_bytes() + (_MODULE / "go.sum").read_bytes()
    )
    target = cache_directory() / f"keda-client-{digest.hexdigest()[:12]}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        done = subprocess.run(
            ("go", "build", "-trimpath", "-buildvcs=false", "-o", str(partial), str(_SOURCE.resolve())),
            cwd=_MODULE,
            env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
            check=False,
            capture_output=True,
            text=True,
        )
    except FileNotFoundError as error:
        raise NoClientError("there is no `go` on the PATH (https://go.dev/dl/)") from error
    if done.returncode != 0:
        raise NoClientError(f"go build failed: {done.stderr.strip()}")
    partial.rename(target)
    return target


def call_times(
    program: Path, port: int, *, rate: int, seconds: int, services: int, begun: Callable[[], None]
) -> list[float]:
    """Seconds of each call; ``begun`` is called once it is warm. Raises SystemExit where a call is not answered."""
    arguments = (str(program), f"127.0.0.1:{port}", str(rate), str(seconds), str(services))
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        if client.stdout.readline() == "measuring\n":
            begun()
        times_s = [int(line) / 1e9 for line in client.stdout]
    if client.returncode != 0 or not times_s:
        raise SystemExit("a call was not answered with a number")
    return times_s
