"""What holds for all tests: a browser is optional for a developer, never for CI; no example is timed."""

from __future__ import annotations

import os
import shutil

import pytest
from hypothesis import settings

pytest_plugins = ("tests.cluster.fixture",)

_BROWSER = ("chromium", "chromedriver")

# How long an example takes depends on what else the machine does; pytest's own timeout finds what hangs.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out browser tests where Debian's chromium is not installed, and say so; with CI=true refuse to go on."""
    driven = [item for item in items if item.get_closest_marker("browser") is not None]
    missing = [name for name in _BROWSER if shutil.which(name) is None]
    if not driven or not missing:
        return
    reason = f"not installed: {', '.join(missing)} (apt-get install chromium chromium-driver)"
    if os.environ.get("CI") == "true":
        raise pytest.UsageError(f"browser tests may not be skipped in CI; {reason}")
    for item in driven:
        item.add_marker(pytest.mark.skip(reason=reason))
