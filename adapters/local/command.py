"""From a replica's template to the command line of its process."""

from __future__ import annotations

import re
import socket
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from adapters.local.process import Launch
from adapters.local.record import HOST, ReplicaRecord
from adapters.local.template import ReplicaTemplate
from autoscaler.codec import encode

_PLACEHOLDER = re.compile(r"\{(host|port|metrics_port|grpc_port|name|service|variant|model|devices)\}")
_UNSAFE_IN_PATH = re.compile(r"^\.+|[^A-Za-z0-9._-]")
_LOGS_KEPT = 20


def launch_of(template: ReplicaTemplate, record: ReplicaRecord, *, logs: Path) -> Launch:
    """Placeholders filled in; other text in braces (JSON, say) stays as it is.

    A replica of a variant with devices sees only its own, by index in PCI order or by UUID.
    """
    values = {
        "host": HOST,
        "port": str(record.port),
        "metrics_port": str(record.metrics_port),
        "grpc_port": str(record.grpc_port),
        "name": record.name,
        "service": record.service,
        "variant": record.variant,
        "model": template.model or "",
        "devices": ",".join(record.devices),
    }

    def fill(text: str) -> str:
        return _PLACEHOLDER.sub(lambda match: values[match.group(1)], text)

    env = [(key, fill(value)) for key, value in template.env]
    if template.variant.devices is not None:
        env.append(("CUDA_DEVICE_ORDER", "PCI_BUS_ID"))
        env.append(("CUDA_VISIBLE_DEVICES", values["devices"]))
    return Launch(
        name=record.name,
        argv=tuple(fill(word) for word in template.command),
        env=tuple(env),
        cwd=template.cwd,
        log=log_path(record, logs=logs),
        record=encode(record).decode(),
    )


def log_path(record: ReplicaRecord, *, logs: Path) -> Path:
    """The replica's one log file; a restart of the replica appends to it."""
    folder, file = (_UNSAFE_IN_PATH.sub("_", part) for part in (record.service, record.name))
    return logs / folder / f"{file}.log"


def port_was_taken(log: Path) -> bool:
    """True where the end of the log says that the server could not have its port."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - 8192))
            return b"address already in use" in file.read().lower()
    except OSError:
        return False


def drop_old_logs(folder: Path, *, keep: Collection[Path]) -> None:
    """Delete all but the newest logs of one service's past replicas, so that they don't grow without end."""
    try:
        past = [path for path in folder.glob("*.log") if path not in keep]
        past.sort(key=lambda path: (path.stat().st_mtime, path.name), reverse=True)
        for path in past[_LOGS_KEPT:]:
            path.unlink()
    except OSError:
        return  # tidying can wait


def free_port(taken: Collection[int]) -> int:
    """A loopback port that nobody listens on and that is not in ``taken``. Raises OSError.

    Somebody may take it before the replica does; then the replica ends, and its next start gets another port.
    """
    while True:
        with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as sock:
            sock.bind((HOST, 0))
            port: int = sock.getsockname()[1]
        if port not in taken:
            return port
