"""The configuration file that a command names."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from autoscaler.commands.output import fail
from autoscaler.config import ConfigError, ConfigFile, json_schema, load
from autoscaler.config.resource_crd import definition_file


def config_file(path: Path) -> ConfigFile:
    """The file, read; ends the command where it can't be."""
    try:
        return ConfigFile(path)
    except ConfigError as error:
        fail(str(error))


def print_schema(*, resource: bool) -> None:
    """That of the configuration file, or the definition of the custom resource."""
    if resource:
        print(definition_file(), end="")
    else:
        print(json.dumps(json_schema(), indent=2))


def check_file(config: Path) -> None:
    """Print it with its defaults, or what is wrong with it."""
    try:
        settings = load(config)
    except ConfigError as error:
        fail(str(error))
    for warning in settings.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(settings.effective, end="")
