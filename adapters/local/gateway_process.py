"""The gateway's process, from outside: started where none runs, else taken over, and replaced where it must be."""

from __future__ import annotations

import math
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from adapters.local.gateway import (
    EXIT_ALREADY_RUNNING,
    EXIT_REFUSED,
    RefusedStartError,
    listen_for_clients,
    listen_for_scrapes,
)
from adapters.local.gateway_client import GatewayClient
from adapters.local.gateway_protocol import PROTOCOL, Identity
from adapters.local.template import GatewaySettings
from autoscaler.ports import InvalidAnswerError, RefusedError, UnavailableError

_START_WITHIN_S = 30.0
_STOP_MARGIN_S = 5.0
_LOOK_EVERY_S = 0.02

# What a gateway that has to make room for another gives its requests in flight; it takes no more meanwhile.
_REPLACED_GRACE_S = 3600.0


class GatewayProcess:
    """The one gateway of a state directory. It goes on running when this object, or the process it is in, is gone."""

    def __init__(self, *, directory: Path, settings: GatewaySettings, log_path: Path | None = None) -> None:
        """``directory``: where its socket (``gateway.sock``) and, unless ``log_path`` says else, its log
        (``gateway.log``) are; has to exist.
        """
        self._socket_path = directory / "gateway.sock"
        self._log_path = directory / "gateway.log" if log_path is None else log_path
        self.settings = settings
        self.client = GatewayClient(self._socket_path)

    def ensure(self) -> Identity:
        """Have a gateway with these settings answer, and say which. Level-triggered: call it as often as you like.

        One that runs already is kept with its requests and counts, unless its address or its protocol differs.
        Raises RefusedError where its address can't be had (the message says what to do), else UnavailableError.
        """
        try:
            present = self.client.identity()
        except UnavailableError:
            return self._start()
        except InvalidAnswerError:  # of another protocol, so much so that even this can't be read
            return self._replace()
        self._check_address(present.settings)
        if present.protocol != PROTOCOL or present.settings.addresses != self.settings.addresses:
            return self._replace()
        if present.settings != self.settings:
            self.client.put_settings(self.settings)
        return present

    def stop(self, *, grace_s: float) -> None:
        """End it, giving requests in flight ``grace_s`` seconds; returns when it is gone. Idempotent."""
        try:
            process = psutil.Process(self.client.identity().pid)
            self.client.stop(grace_s=grace_s)
        except (UnavailableError, psutil.NoSuchProcess):
            return
        if not _ends(process, within_s=grace_s + _STOP_MARGIN_S):
            with suppress(psutil.NoSuchProcess):
                process.kill()
            _ends(process, within_s=_STOP_MARGIN_S)

    def _check_address(self, present: GatewaySettings) -> None:
        """The present gateway is not given up for an address that can't be had."""
        wanted, listeners = self.settings, []
        try:
            if wanted.port != present.port:
                listeners += listen_for_clients(wanted.host, wanted.port)
            if wanted.metrics_port != present.metrics_port:
                listeners += listen_for_scrapes(wanted)
        except RefusedStartError as error:
            raise RefusedError(str(error)) from error
        finally:
            for listener in listeners:
                listener.close()

    def _replace(self) -> Identity:
        self.client.stop(grace_s=_REPLACED_GRACE_S)
        return self._start()

    def _start(self) -> Identity:
        command = [
            *(sys.executable, "-P", "-m", "adapters.local.gateway"),
            *("--admin", str(self._socket_path)),
            *("--host", self.settings.host),
            *("--port", str(self.settings.port)),
            *("--max-body-bytes", str(self.settings.max_body_bytes)),
            *("--connect-timeout-s", str(self.settings.connect_timeout_s)),
            *("--detach", str(self._log_path)),
        ]
        if self.settings.metrics_port is not None:
            command += ["--metrics-host", self.settings.metrics_host, "--metrics-port", str(self.settings.metrics_port)]
        try:
            started = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=_START_WITHIN_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnavailableError(f"the gateway could not be started: {error}") from error
        said = started.stderr.decode(errors="replace").strip()
        if started.returncode == EXIT_REFUSED:
            raise RefusedError(said)
        if started.returncode not in (0, EXIT_ALREADY_RUNNING):
            raise UnavailableError(f"the gateway ended at its start with code {started.returncode}: {said}")
        return self.client.identity(within_s=_START_WITHIN_S)


def _ends(process: psutil.Process, *, within_s: float) -> bool:
    # It is not our child: its parent, the system's first process, may leave it a zombie for a while.
    for _ in range(math.ceil(within_s / _LOOK_EVERY_S)):
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return True
            process.wait(timeout=_LOOK_EVERY_S)
        except psutil.TimeoutExpired:
            continue
        except psutil.NoSuchProcess:
            pass
        return True
    return False
