"""Fetch vLLM for CPU into its own environment, once, and say how it is launched.

    python -m tests.engines.install_vllm              # installs what lacks, then prints the launch as JSON
    python -m tests.engines.install_vllm --directory  # the same, prints where: bin/python and model are in there

About 6 GB.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.engines.installing import HERE, Recipe, run

MODEL_SCRIPT = HERE / "make_tiny_model.py"
SERVED_NAME = "tiny"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a replica is started: argv with the placeholders {host} and {port}, and what its environment needs."""

    command: tuple[str, ...]
    env: dict[str, str]
    model: str


def make_model(target: Path) -> None:
    """The environment's own Python makes the model."""
    run(str(target / "bin" / "python"), str(MODEL_SCRIPT), str(target / "model"))


RECIPE = Recipe(
    release="vllm-0.32.0",
    size="6 GB",
    requirements=HERE / "vllm.txt",
    sources=(MODEL_SCRIPT,),
    finish=make_model,
)


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
    target = RECIPE.install()
    print(target if wants_directory else json.dumps(asdict(launch(target))))


if __name__ == "__main__":
    main()
