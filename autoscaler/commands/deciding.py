"""``gpu-autoscaler once``, ``explain`` and ``replay``: decisions, now and as they were recorded."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import typer
from rich.console import Console

from adapters.local.recording import Recording
from autoscaler.codec import to_plain
from autoscaler.commands.config_file import config_file
from autoscaler.commands.output import Output, as_json, fail
from autoscaler.domain.plan import ServiceDecision
from autoscaler.domain.service import ServiceId
from autoscaler.local_look import Onlooker
from autoscaler.ports import PortError
from autoscaler.replaying import replay
from autoscaler.screens import decision_screen, replay_screen


def decide_once(config: Path, *, after_s: float, output: Output) -> None:
    """Look twice, decide, print."""
    try:
        with Onlooker(config_file(config).settings) as onlooker:
            decision = onlooker.once(after_s=after_s)
    except PortError as error:
        fail(str(error))
    _print_decisions(decision.services, output)


def explain_decision(service: str, *, at: str | None, config: Path, state_dir: Path | None, output: Output) -> None:
    """Print the decision on a service that held at a time."""
    recording = Recording(state_dir if state_dir is not None else config_file(config).settings.state_dir)
    try:
        part = recording.decision_at(ServiceId(service), _time(at))
        known = recording.services()
    except PortError as error:
        fail(str(error))
    if part is None:
        names = ", ".join(known) or "none"
        fail(f"no decision of service {service!r} is recorded for that time; recorded services: {names}")
    _print_decisions([part], output)


def replay_recording(file: Path, *, output: Output) -> None:
    """Decide again, and print where that differs."""
    total, different = 0, []
    try:
        for each in replay(Recording(file)):
            total += 1
            if each.differences:
                different.append(each)
    except PortError as error:
        fail(str(error))
    if total == 0:
        fail(f"{file} holds no recorded ticks")
    plain = {"decisions": total, "different": [to_plain(each) for each in different]}
    if as_json(output):
        print(json.dumps(plain, indent=2))
    else:
        Console().print(replay_screen(different, total=total))
    if different:
        raise typer.Exit(1)


def _time(text: str | None) -> float:
    if text is None:
        return sys.float_info.max
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except ValueError:
        fail(f"--at: must be seconds since the epoch or an ISO time such as 2026-11-30T12:00:00, got {text!r}")


def _print_decisions(parts: Sequence[ServiceDecision], output: Output) -> None:
    if as_json(output):
        print(json.dumps([to_plain(part) for part in parts], indent=2))
        return
    console = Console()
    for part in parts:
        console.print(decision_screen(part))
