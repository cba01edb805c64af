"""What the running controller says: one JSON line for each change and each fault, and its board kept current."""

from __future__ import annotations

import json
import logging
import sys
from typing import TextIO

from adapters.serving.store import DecisionBoard
from autoscaler.controller import Fault
from autoscaler.domain.plan import Hold, ServiceDecision
from autoscaler.domain.service import ServiceId
from autoscaler.domain.state import Tick


class JsonLines(logging.Formatter):
    """A log record as one JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger, message and the fields that were given as ``extra={"fields": ...}``."""
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class PlainLines(logging.Formatter):
    """A log record as a line for a person at a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, message and why."""
        line = f"{self.formatTime(record, '%H:%M:%S')} {record.levelname.lower():7} {record.getMessage()}"
        why = getattr(record, "fields", {}).get("detail")
        if why:
            line += f"  ({why})"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def log_to(stream: TextIO = sys.stderr, *, level: int = logging.INFO) -> None:
    """Send every logger's lines to ``stream``: for people where that is a terminal, else as JSON."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(PlainLines() if stream.isatty() else JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


class Reporter:
    """The controller's Observer: logs changes and faults, each once while it lasts, and tells the board of ticks."""

    def __init__(self, board: DecisionBoard) -> None:
        self._board = board
        self._log = logging.getLogger("controller")
        self._said: dict[ServiceId, tuple[int, str]] = {}
        self._faults: dict[tuple[Fault, ServiceId | None], str] = {}

    def ticked(self, tick: Tick, *, took_s: float) -> None:
        """Log what changed, and mark the tick on the board."""
        self._board.ticked(at_s=tick.now_s, duration_s=took_s)
        for part in tick.decision.services:
            self._changed(part)

    def fault(self, fault: Fault, service: ServiceId | None, error: Exception) -> None:
        """Log a fault when it begins or changes; the same one again says nothing new."""
        text = f"{type(error).__name__}: {error}"
        if self._faults.get((fault, service)) == text:
            return
        self._faults[fault, service] = text
        unexpected = fault is Fault.UNEXPECTED
        self._log.error(
            "%s",
            text,
            extra={"fields": {"fault": fault.value, "service": service}},
            exc_info=error if unexpected else None,
        )

    def _changed(self, part: ServiceDecision) -> None:
        held = part.outcome.reason.value if isinstance(part.outcome, Hold) else ""
        said = (part.desired, held)
        before = self._said.get(part.service)
        if before == said:
            return
        self._said[part.service] = said
        asked = sum(target.replicas for target in part.current)
        detail = part.outcome.detail if isinstance(part.outcome, Hold) else _why(part)
        self._log.info(
            "%s %s",
            part.service,
            _moves(part.desired, asked, held),
            extra={
                "fields": {
                    "service": part.service,
                    "decision": f"{part.service}@{part.at_s:.3f}",
                    "desired": part.desired,
                    "ready": part.ready,
                    "reason": held or part.binding.value,
                    "detail": detail,
                }
            },
        )


def _moves(desired: int, asked: int, held: str) -> str:
    if held:
        return f"holds at {desired}"
    return f"stays at {desired}" if desired == asked else f"{asked} -> {desired}"


def _why(part: ServiceDecision) -> str:
    binding = [stage for stage in part.stages if stage.reason is part.binding and stage.detail]
    return binding[-1].detail if binding else ""
