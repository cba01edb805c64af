"""Imports point inwards: the contracts of pyproject.toml."""

from __future__ import annotations

from pathlib import Path

import pytest
from importlinter.cli import lint_imports


def test_import_contracts_are_kept(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root)
    status = lint_imports(no_cache=True)
    assert status == 0, capfd.readouterr().out
