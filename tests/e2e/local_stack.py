"""One controller as a subprocess, with its services; asked through its API, its gateway and its replicas' ports."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

from adapters.local.recording import Recording
from autoscaler.domain.cluster import Phase, Replica
from autoscaler.domain.plan import ServiceDecision
from autoscaler.domain.service import ServiceId
from tests.cluster.processes import free_port

MARK = "GPU_AUTOSCALER_E2E"
ENGINE = (sys.executable, "-m", "loadtests.engine_emulator", "--port", "{port}", "--model", "chat")
# A replica of this engine serves about 10 requests/s of 10 tokens: 4 sequences, 40 ms a step.
SMALL = ("--step-base-ms", "40", "--max-num-seqs", "4", "--startup-s", "1")


def until(condition: Callable[[], bool], *, what: str, within_s: float = 45.0) -> None:
    """Wait for a condition of the running system; it must come true within a generous time."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise AssertionError(f"not within {within_s:.0f} s: {what}")
        time.sleep(0.05)


@dataclass
class Answer:
    """What became of one request: its HTTP status, or the error that ended it."""

    status: int | None
    error: str = ""
    took_s: float = 0.0


@dataclass
class Load:
    """Requests in the background at a fixed rate, each in a thread of its own: an open loop."""

    port: int
    rps: float
    tokens: int = 10
    model: str = "chat"
    answers: list[Answer] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _pacer: threading.Thread | None = None

    def __enter__(self) -> Load:
        self._pacer = threading.Thread(target=self._pace)
        self._pacer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        assert self._pacer is not None
        self._pacer.join()
        for thread in self._threads:
            thread.join(timeout=600)

    def _pace(self) -> None:
        next_s = time.monotonic()
        while not self._stop.is_set():
            thread = threading.Thread(
                target=lambda: self.answers.append(ask(self.port, tokens=self.tokens, model=self.model))
            )
            thread.start()
            self._threads.append(thread)
            next_s += 1 / self.rps
            self._stop.wait(max(0.0, next_s - time.monotonic()))

    def failed(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.status != 200]


def ask(port: int, *, tokens: int = 10, model: str = "chat") -> Answer:
    """One completion through the gateway."""
    began_s = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    try:
        body = json.dumps({"model": model, "prompt": "one two three", "max_tokens": tokens, "ignore_eos": True})
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        return Answer(status=response.status, took_s=time.monotonic() - began_s)
    except (OSError, http.client.HTTPException) as error:
        return Answer(status=None, error=repr(error), took_s=time.monotonic() - began_s)
    finally:
        connection.close()


class LocalStack:
    """The running thing under test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "gpu-autoscaler.yaml"
        self.state_dir = folder / "state"
        self.api_port, self.gateway_port = free_port(), free_port()
        self.controller: subprocess.Popen[bytes] | None = None
        self._mark = uuid.uuid4().hex

    def configure(self, *services: dict[str, Any], **top: Any) -> None:
        """Write the configuration; defaults make one service quick to observe."""
        chosen = services or (self.service(),)
        document = {
            "intervalSeconds": 0.5,
            "stateDir": str(self.state_dir),
            "api": {"port": self.api_port},
            "gateway": {"port": self.gateway_port},
            "services": list(chosen),
            **top,
        }
        self.config.write_text(yaml.safe_dump(document))

    def service(self, name: str = "chat", *, engine: Sequence[str] = SMALL, **keys: Any) -> dict[str, Any]:
        return {
            "name": name,
            "engine": "vllm",
            "slo": {"ttft": "2s", "itl": "100ms"},
            "command": [*(part.replace("chat", name) for part in ENGINE), *engine],
            "maxReplicas": 4,
            "startup": "2s",
            "gracePeriod": "10s",
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}},
            "stepTime": {"c": "40ms", "d": "0.1ms", "e": "0.001ms", "a": "0.01ms"},
            "maxNumSeqs": 4,
            **keys,
        }

    def start(self, *, wait: bool = True) -> None:
        log = (self.folder / "controller.log").open("ab")
        self.controller = subprocess.Popen(
            [sys.executable, "-m", "autoscaler.cli", "run", "--config", str(self.config)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, MARK: self._mark},
            cwd=self.folder,
            start_new_session=True,
        )
        log.close()
        if wait:
            until(self.is_ready, what=f"the API is ready: {self.log()[-2000:]}")

    def run(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Another command of ours on the same configuration; its words go to a file of its own."""
        with (self.folder / "other.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "autoscaler.cli", *arguments, "--config", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )

    def said(self, process: subprocess.Popen[bytes]) -> str:
        assert process.poll() is None, (self.folder / "other.log").read_text()
        return (self.folder / "other.log").read_text()

    def log(self) -> str:
        return (self.folder / "controller.log").read_text()

    def is_ready(self) -> bool:
        status, _ = self.get("/readyz")
        return status == 200

    def get(self, path: str) -> tuple[int | None, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.api_port, timeout=10)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        except (OSError, ValueError, http.client.HTTPException):
            return None, None
        finally:
            connection.close()

    def latest(self, name: str = "chat") -> ServiceDecision:
        """The newest recorded decision; the first is recorded just after the API is ready."""
        recording = Recording(self.state_dir)
        found: list[ServiceDecision] = []

        def recorded() -> bool:
            part = recording.decision_at(ServiceId(name), sys.float_info.max)
            found.extend([] if part is None else [part])
            return bool(found)

        until(recorded, what=f"a decision of {name} is recorded")
        return found[0]

    def decisions(self, since_s: float, name: str = "chat") -> tuple[ServiceDecision, ...]:
        return Recording(self.state_dir).decisions(
            ServiceId(name), since_s=since_s, until_s=sys.float_info.max, limit=10_000
        )

    def replicas(self, name: str = "chat", phase: Phase = Phase.READY) -> list[Replica]:
        fleet = Recording(self.state_dir).fleet(at_s=0.0, devices=())
        return [each for each in fleet.replicas if each.service == name and each.phase is phase]

    def until_ready(self, count: int, name: str = "chat", *, within_s: float = 45.0) -> None:
        until(
            lambda: len(self.replicas(name)) == count and self.latest(name).ready == count,
            what=f"{count} ready replicas of {name}; log: {self.log()[-1500:]}",
            within_s=within_s,
        )

    def engines(self) -> list[psutil.Process]:
        """Processes of emulated engines that belong to this stack and live."""
        return [each for each in self.processes() if "loadtests.engine_emulator" in _command(each)]

    def port_of(self, replica: Replica) -> int:
        assert replica.metrics_url is not None
        return int(replica.metrics_url.split(":")[2].split("/")[0])

    def set_fault(self, replica: Replica, fault: dict[str, Any] | None) -> None:
        """Give one replica's emulator a fault, or clear it."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port_of(replica), timeout=10)) as connection:
            if fault is None:
                connection.request("DELETE", "/faults")
            else:
                connection.request("POST", "/faults", json.dumps(fault), {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.read()
            assert response.status == 200

    def kill_controller(self) -> None:
        assert self.controller is not None
        self.controller.kill()
        self.controller.wait()

    def stop_controller(self) -> int:
        assert self.controller is not None
        self.controller.send_signal(signal.SIGTERM)
        return self.controller.wait(timeout=60)

    def end(self) -> None:
        """Nothing of it stays behind."""
        if self.controller is not None and self.controller.poll() is None:
            self.controller.send_signal(signal.SIGTERM)
            try:
                self.controller.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.controller.kill()
                self.controller.wait()
        for process in self.processes():
            process.kill()

    def processes(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return found


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
