"""What ``compare`` does once its options are read."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from rich.console import Console

from autoscaler.commands.output import Output, as_json, fail
from loadtests.compare.choice import Choice, ChoiceError
from loadtests.compare.choosing import study_of
from loadtests.compare.comparing import compare, write_files
from loadtests.compare.executing import BackendError
from loadtests.compare.exports import to_json
from loadtests.compare.running import RunError
from loadtests.compare.view import comparison_view


def compare_and_show(choice: Choice, *, out: Path, jobs: int, backend: str, output: Output) -> None:
    """Run it, write its files below ``out``, and show it. Raises typer.Exit where it can't be run."""
    told = Console(stderr=True)
    if jobs == 0 or jobs < -1:
        fail(f"--jobs must be -1 (one on each core) or at least 1, got {jobs}")
    try:
        out.mkdir(parents=True, exist_ok=True)
        compared = compare(study_of(choice), runs_folder=out / "runs", jobs=jobs, backend=backend, console=told)
    except (ChoiceError, BackendError, RunError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"--out {out}: {error.strerror or error}")
    except KeyboardInterrupt:
        fail(f"interrupted; what was run is kept in {out / 'runs'}, and the same command continues")
    files = write_files(compared, out, made_by=shlex.join(["gpu-autoscaler", *sys.argv[1:]]))
    target = compared.study.target
    if as_json(output):
        print(json.dumps(json.loads(to_json(compared.findings, compared.pick, target=target))))
    else:
        Console().print(comparison_view(compared.findings, compared.pick, target=target))
    told.print(f"written: {', '.join(map(str, files))}", style="dim")
