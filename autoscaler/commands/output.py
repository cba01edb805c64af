"""How a command answers, and how it fails."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import NoReturn

import typer


class Output(StrEnum):
    """How an answer is written; AUTO: a table on a terminal, JSON in a pipe."""

    AUTO = "auto"
    TABLE = "table"
    JSON = "json"


def as_json(output: Output) -> bool:
    """Whether it is to be JSON."""
    return output is Output.JSON or (output is Output.AUTO and not sys.stdout.isatty())


def fail(message: str) -> NoReturn:
    """End the command with exit code 2."""
    print(message, file=sys.stderr)
    raise typer.Exit(2)
