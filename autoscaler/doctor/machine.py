"""Checks of one machine by itself, where the configuration has no cluster: what a start would trip over."""

from __future__ import annotations

import errno
import os
import shutil
import socket
from pathlib import Path

from adapters.local.devices import Nvml, find_devices
from autoscaler.config import Settings
from autoscaler.config.settings import device_warnings
from autoscaler.doctor.finding import CheckId, Findings, error, fine, warning


def check_ports(settings: Settings) -> Findings:
    """Whether the gateway and the API can listen."""
    for key, host, port in (
        ("gateway", settings.gateway.host, settings.gateway.port),
        ("api", settings.api.host, settings.api.port),
    ):
        if port and (failure := _in_use(host, port)) is not None:
            if failure.errno == errno.EADDRINUSE:
                message = f"{host}:{port} is in use, by a running controller or by another program"
                yield warning(CheckId.PORTS, key, message, f"`ss -ltnp sport = :{port}` tells by whom; or {key}.port")
            else:
                yield error(CheckId.PORTS, key, f"{host}:{port} can't be used: {failure.strerror}", f"{key}.host")


def _in_use(host: str, port: int) -> OSError | None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
    except OSError as failure:
        return failure
    return None


def check_commands(settings: Settings) -> Findings:
    """Whether the programs that replicas are started with are there."""
    for template in settings.templates:
        program = template.command[0]
        folder = Path(template.cwd) if template.cwd is not None else Path.cwd()
        named = program if "/" not in program else str(folder / program)
        subject = f"service {template.service}, variant {template.variant.name}"
        if template.cwd is not None and not folder.is_dir():
            yield error(CheckId.COMMAND, subject, f"its folder {folder} is not there", "services[].cwd")
        elif shutil.which(named, path=dict(template.env).get("PATH")) is None:
            message = f"its program {program!r} is not found, or may not be run"
            yield error(CheckId.COMMAND, subject, message, "services[].command, or install it")


def check_state(settings: Settings) -> Findings:
    """Whether the state directory can be written to, or made."""
    wanted = settings.state_dir
    there = next((each for each in (wanted, *wanted.parents) if each.exists()), Path("/"))
    if not there.is_dir():
        yield error(CheckId.STATE_DIRECTORY, str(wanted), f"{there} is no directory", "stateDir")
    elif not os.access(there, os.W_OK | os.X_OK):
        yield error(CheckId.STATE_DIRECTORY, str(wanted), f"{there} can't be written to", "chown it, or stateDir")


def check_machine_devices(settings: Settings, nvml: Nvml | None, *, visible: str | None) -> Findings:
    """Whether the devices are there that the services ask for. ``visible``: as in ``find_devices``."""
    found = find_devices(nvml, visible=visible)
    devices = settings.devices if settings.devices is not None else found.devices
    if settings.devices is None:
        for note in found.notes:
            yield fine(CheckId.MACHINE_DEVICES, "machine", note)
    for device in devices:
        if not device.healthy:
            message = "it is there and can't be used: its driver answers with errors"
            yield error(CheckId.MACHINE_DEVICES, f"device {device.id}", message, "nvidia-smi tells more")
    for service in settings.settled(devices).services:
        for told in device_warnings(service, devices):
            yield warning(CheckId.MACHINE_DEVICES, f"service {service.id}", told, "services[].devices, or inventory")
