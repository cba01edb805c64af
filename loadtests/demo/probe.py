"""How much one replica of a real engine serves on this machine: measured before the demo, since no table can know."""

from __future__ import annotations

import socket
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from loadtests.demo.engines import DemoEngine
from loadtests.demo.stack import Stack
from loadtests.records import Outcome, RequestRecord, read_records

_PAUSE_S = 0.5
_BURST_S = 0.5


class ProbeFailedError(Exception):
    """No figure could be had; the message says why."""


def saturated_rps(engine: DemoEngine, *, directory: Path) -> float:
    """Requests per second of one replica with ten times as many requests as it runs at once. Raises ProbeFailedError.

    Starts a replica, sends the burst with the demo's lengths, and ends the replica.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    values = {"{host}": "127.0.0.1", "{port}": str(port), "{model}": engine.served_model}
    values["{devices}"] = next(iter(engine.devices), "")
    url, records = f"http://127.0.0.1:{port}", directory / "probe.jsonl"
    with Stack(directory) as stack:
        stack.start("probe-engine", [_filled(word, values) for word in engine.command], env=engine.env)
        _await_ready(engine, url, stack)
        stack.start("probe-load", _burst(engine, url, records))
        while stack.exit_code("probe-load") is None:
            time.sleep(_PAUSE_S)
        if stack.exit_code("probe-load") != 0:
            raise ProbeFailedError(f"the burst could not be sent:\n{stack.log_tail('probe-load')}")
        return throughput_rps(read_records(records).records)


def throughput_rps(records: Sequence[RequestRecord]) -> float:
    """Finished requests over the time from the first arrival to the last end. Raises ProbeFailedError on none."""
    ends = [record.due_s + record.e2e_s for record in records if record.outcome is Outcome.FINISHED]
    if not ends:
        raise ProbeFailedError("the replica finished no request of the burst")
    return len(ends) / (max(ends) - min(record.due_s for record in records))


def _filled(word: str, values: dict[str, str]) -> str:
    for placeholder, value in values.items():
        word = word.replace(placeholder, value)
    return word


def _await_ready(engine: DemoEngine, url: str, stack: Stack) -> None:
    deadline_s = time.monotonic() + engine.ready_deadline_s
    while time.monotonic() < deadline_s:
        if stack.exit_code("probe-engine") is not None:
            raise ProbeFailedError(f"the engine ended:\n{stack.log_tail('probe-engine')}")
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5.0):
                return
        except OSError:
            time.sleep(_PAUSE_S)
    raise ProbeFailedError(f"the engine was not ready after {engine.ready_deadline_s:g} s")


def _burst(engine: DemoEngine, url: str, records: Path) -> tuple[str, ...]:
    rate = 10 * engine.max_num_seqs / _BURST_S
    prompt, output = engine.probe_lengths
    return (
        sys.executable,
        *("-m", "loadtests.harness", "--url", url, "--served-model", engine.served_model),
        *("--formula", f"steps:{rate:g}x{_BURST_S:g}", "--prompt-tokens", prompt, "--output-tokens", output),
        *("--timeout-s", "300", "--drain-s", "300", "--records", str(records)),
    )
