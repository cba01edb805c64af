"""The configuration: one YAML file -> ``Settings``, every mistake told with its line; reloaded while running.

``units`` durations and sizes; ``fields``, ``service_schema`` and ``schema`` the keys; ``shape`` their JSON schema;
``reference`` the documentation and examples made of it. ``document`` YAML with lines; ``reading`` text -> sections;
``problems`` what is wrong with them; ``command`` what a command line tells; ``rules`` what joins several keys;
``building`` sections -> ``settings``; ``loading`` a path -> settings; ``watching`` a file that changes.
"""

from autoscaler.config.loading import load
from autoscaler.config.problems import ConfigError, Problem
from autoscaler.config.settings import OpenDevices, Settings
from autoscaler.config.shape import json_schema
from autoscaler.config.watching import ConfigFile, Refused, Reloaded

__all__ = [
    "ConfigError",
    "ConfigFile",
    "OpenDevices",
    "Problem",
    "Refused",
    "Reloaded",
    "Settings",
    "json_schema",
    "load",
]
