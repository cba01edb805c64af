"""Emulated engines as real processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from loadtests.emulator.process import EmulatorProcess


@pytest.fixture(scope="session")
def shared_emulator() -> Iterator[EmulatorProcess]:
    """One fast engine for all tests that leave it as it was."""
    flags = ("--step-base-ms", "5", "--max-model-len", "2000", "--kv-tokens", "8000", "--max-num-seqs", "4")
    with EmulatorProcess(*flags) as process:
        process.await_status("/health", 200)
        yield process


@pytest.fixture
def emulator(shared_emulator: EmulatorProcess) -> Iterator[EmulatorProcess]:
    """The shared engine; its faults are cleared afterwards."""
    yield shared_emulator
    shared_emulator.clear_faults()
