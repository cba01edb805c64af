"""What the chart comes to for some values, by the real helm."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.build import program

CHART = Path(__file__).parents[2] / "charts" / "gpu-autoscaler"
RELEASE = "gpu-autoscaler"
NAMESPACE = "scaling"

# Objects of any kind; what a test looks at is its own to know.
Json = dict[str, Any]


class RefusedByHelm(Exception):
    """Helm refused; the message is what it printed."""


def render(values: Mapping[str, object] | None = None) -> list[Json]:
    """The objects that ``helm template`` makes. Raises RefusedByHelm, or MissingProgramError without helm."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [each for each in yaml.load_all(_text(json.dumps(values or {})), Loader=loader) if each]


@cache
def _text(values: str) -> str:
    """As helm prints it; the same values are asked about by several tests."""
    command = [str(program("helm")), "template", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--values=-"]
    done = subprocess.run(command, input=values, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RefusedByHelm(done.stderr)
    return done.stdout


def of_kind(objects: Iterable[Json], kind: str) -> list[Json]:
    """Those of one kind."""
    return [each for each in objects if each["kind"] == kind]


def one(objects: Iterable[Json], kind: str) -> Json:
    """The only one of a kind."""
    (found,) = of_kind(objects, kind)
    return found
