"""Fetch vLLM for CPU into its own environment, once, and say how it is launched.

    python tests/engines/install_vllm.py              # installs what lacks, then prints the launch as JSON
    python tests/engines/install_vllm.py --directory  # the same, prints where: bin/python and model are in there

The environment lies outside the checkout, in ``$GPU_AUTOSCALER_CACHE`` (``~/.cache/gpu-autoscaler`` unless set), so
that every checkout shares it; its name carries a hash of all that it is made from, so that a change makes a new one.
About 6 GB. vLLM's pins would bind ours, hence the separate environment.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).parent
RECIPE = (HERE / "vllm.txt", HERE / "make_tiny_model.py")
RELEASE = "vllm-0.32.0"
SERVED_NAME = "tiny"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a replica is started: argv with the placeholders {host} and {port}, and what its environment needs."""

    command: tuple[str, ...]
    env: dict[str, str]
    model: str


def cache_directory() -> Path:
    """Where engines are kept between runs."""
    chosen = os.environ.get("GPU_AUTOSCALER_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "gpu-autoscaler"


def environment_directory() -> Path:
    """This recipe's own place in the cache."""
    digest = hashlib.sha256(platform.python_version().encode())
    for part in RECIPE:
        digest.update(part.read_bytes())
    return cache_directory() / "engines" / f"{RELEASE}-{digest.hexdigest()[:12]}"


def install(target: Path) -> None:
    """Make the environment and the model. A marker is written last, so that half an installation is begun anew."""
    marker = target / "complete"
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if marker.exists():
            return
        shutil.rmtree(target, ignore_errors=True)
        print(f"installing {RELEASE} into {target} (about 6 GB, once)", file=sys.stderr)
        uv = (sys.executable, "-m", "uv")
        python = target / "bin" / "python"
        run(*uv, "venv", "--quiet", "--python", sys.executable, str(target))
        requirements = ("--no-deps", "--require-hashes", "-r", str(HERE / "vllm.txt"))
        run(*uv, "pip", "install", "--quiet", "--python", str(python), *requirements)
        run(str(python), str(HERE / "make_tiny_model.py"), str(target / "model"))
        marker.touch()


def run(*command: str) -> None:
    """Run to its end, what it prints going to standard error. Raises CalledProcessError."""
    subprocess.run(command, check=True, stdout=sys.stderr)


def launch(target: Path) -> Launch:
    """The server module is started rather than the ``vllm`` command, which the CPU package's metadata breaks."""
    model = str(target / "model")
    return Launch(
        command=(
            *(str(target / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server"),
            *("--model", model, "--served-model-name", SERVED_NAME, "--dtype", "bfloat16"),
            *("--max-model-len", "1024", "--max-num-seqs", "4", "--enforce-eager"),
            *("--host", "{host}", "--port", "{port}"),
        ),
        env={
            "HF_HUB_OFFLINE": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
        },
        model=SERVED_NAME,
    )


def main() -> None:
    """Install, then print the launch."""
    parser = argparse.ArgumentParser(description="Fetch vLLM for CPU and say how it is launched.")
    parser.add_argument("--directory", action="store_true", help="print where it is instead of how it is launched")
    wants_directory = parser.parse_args().directory
    target = environment_directory()
    install(target)
    print(target if wants_directory else json.dumps(asdict(launch(target))))


if __name__ == "__main__":
    main()
