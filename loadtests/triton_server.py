"""Triton Inference Server as a replica, and a model for it whose executions take a known time.

The server is the one within the package ``nvidia-pytriton``; ``python -m tests.engines.install_triton`` fetches it.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

INPUT, OUTPUT = "INPUT", "OUTPUT"
READY_PATH = "/v2/health/ready"


@dataclass(frozen=True, slots=True)
class TritonHome:
    """An environment that has the server. ``python``: the version of its Python, which is this one's."""

    directory: Path
    python: str = f"{sys.version_info.major}.{sys.version_info.minor}"

    @property
    def packages(self) -> Path:
        """Its site-packages."""
        return self.directory / "lib" / f"python{self.python}" / "site-packages"

    @property
    def shipped(self) -> Path:
        """The server as the package has it."""
        return self.packages / "pytriton" / "tritonserver"

    @property
    def server(self) -> Path:
        """The server's executable."""
        return self.shipped / "bin" / "tritonserver"

    @property
    def backends(self) -> Path:
        """The backends, each with all that it needs."""
        return self.directory / "backends"

    def command(self, repository: Path) -> tuple[str, ...]:
        """What starts a replica, in the placeholders of a replica's command."""
        return (
            *(str(self.server), f"--model-repository={repository}", f"--backend-directory={self.backends}"),
            *("--http-address={host}", "--http-port={port}"),
            *("--grpc-address={host}", "--grpc-port={grpc_port}"),
            *("--metrics-address={host}", "--metrics-port={metrics_port}"),
            "--metrics-config=histogram_latencies=true",
        )

    def env(self) -> dict[str, str]:
        """What its environment needs: the backend's stub finds its libraries and its Python in no other way."""
        libraries = (str(self.packages / "nvidia_pytriton.libs"), str(sysconfig.get_config_var("LIBDIR")))
        return {
            "LD_LIBRARY_PATH": os.pathsep.join(libraries),
            "PATH": os.pathsep.join((str(self.directory / "bin"), os.environ.get("PATH", os.defpath))),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedModel:
    """A model that sleeps ``alpha_s + beta_s * batch`` seconds in each execution, one execution at a time.

    Triton's dynamic batcher gives it what waits, at most ``largest`` items. Input and output: one number an item.
    """

    name: str
    alpha_s: float
    beta_s: float
    largest: int = 8

    @property
    def full_rps(self) -> float:
        """Items per second in full batches: more than that a server can't do."""
        return self.largest / (self.alpha_s + self.beta_s * self.largest)

    def write(self, repository: Path) -> None:
        """Put it into a model repository."""
        version = repository / self.name / "1"
        version.mkdir(parents=True, exist_ok=True)
        terms = {"alpha_s": self.alpha_s, "beta_s": self.beta_s}
        (version.parent / "config.pbtxt").write_text(
            f'name: "{self.name}"\n'
            'backend: "python"\n'
            f"max_batch_size: {self.largest}\n"
            f'input [ {{ name: "{INPUT}", data_type: TYPE_FP32, dims: [ 1 ] }} ]\n'
            f'output [ {{ name: "{OUTPUT}", data_type: TYPE_FP32, dims: [ 1 ] }} ]\n'
            "instance_group [ { kind: KIND_CPU, count: 1 } ]\n"
            "dynamic_batching { }\n"
            + "".join(
                f'parameters: {{ key: "{key}", value: {{ string_value: "{value!r}" }} }}\n'
                for key, value in terms.items()
            )
        )
        (version / "model.py").write_text(_MODEL)


_MODEL = f'''\
import json
import time

import triton_python_backend_utils as triton


class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        self.alpha_s = float(parameters["alpha_s"]["string_value"])
        self.beta_s = float(parameters["beta_s"]["string_value"])

    def execute(self, requests):
        given = [triton.get_input_tensor_by_name(request, "{INPUT}").as_numpy() for request in requests]
        time.sleep(self.alpha_s + self.beta_s * sum(len(items) for items in given))
        return [triton.InferenceResponse([triton.Tensor("{OUTPUT}", items)]) for items in given]
'''
