"""One pod from its binding to its end: pulling, starting, ready, crashing, ending."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.cluster.kubelet.addresses import Addresses
from tests.cluster.kubelet.api import MERGE, KubeApi
from tests.cluster.kubelet.behaviour import Behaviour, Hold, behaviour_of
from tests.cluster.kubelet.engines import Engine, EngineHost
from tests.cluster.kubelet.pod_status import Containers, ready_of, status_of, terminated, waiting
from tests.cluster.kubelet.pod_status import now as written_now

Json = dict[str, Any]
_PROBE_EVERY_S = 0.2
_READY_PROBE_EVERY_S = 1.0
# A kubelet waits 10 s after the first crash, doubled up to 5 min; tests haven't the time.
_FIRST_BACK_OFF_S = 1.0
_LAST_BACK_OFF_S = 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What every pod's life is made with."""

    api: KubeApi
    engines: EngineHost
    addresses: Addresses


class PodLife:
    """Lives while its node is up (``power_on`` .. ``power_off``) and until ``forget``."""

    def __init__(self, pod: Json, means: Means) -> None:
        self._pod = pod
        self._means = means
        self._address = means.addresses.take()
        self._engine: Engine | None = None
        self._status: Json = {}
        self._last_state: Json = {}
        self._restarts = 0
        self._has_run = False
        self._life: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    @property
    def node(self) -> str:
        """Name of its node."""
        return str(self._pod["spec"]["nodeName"])

    def power_on(self) -> None:
        """Its node is up: begin, or begin anew."""
        if self._life is None:
            self._life = asyncio.create_task(self._end() if self._deleted else self._live())

    def power_off(self) -> None:
        """Its node is lost: the engine is dead at once, and nobody writes its status."""
        if self._life is None:
            return
        self._halt()
        if self._has_run:
            self._restarts += 1
            self._last_state = terminated(137, written_now())

    def forget(self) -> None:
        """It is gone from the API."""
        self._halt()
        self._means.addresses.give_back(self._address)

    def update(self, pod: Json) -> None:
        """Its object has changed."""
        begins_to_end = "deletionTimestamp" in pod["metadata"] and not self._deleted
        self._pod = pod
        self._changed.set()
        if self._life is None:
            return
        if begins_to_end:
            self._life.cancel()
            self._life = asyncio.create_task(self._end())
        elif self._status and self._is_misread(pod["status"]):
            self._write()

    @property
    def _deleted(self) -> bool:
        return "deletionTimestamp" in self._pod["metadata"]

    @property
    def _has_ended(self) -> bool:
        """It is in a phase that pods don't leave."""
        return self._status.get("phase") in ("Succeeded", "Failed")

    @property
    def _path(self) -> str:
        metadata = self._pod["metadata"]
        return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"

    @property
    def _behaviour(self) -> Behaviour:
        return behaviour_of(self._pod["metadata"].get("annotations", {}))

    def _halt(self) -> None:
        for task in (self._life, self._writing):
            if task is not None:
                task.cancel()
        self._life = self._writing = None
        self._kill_engine()

    def _kill_engine(self) -> None:
        if self._engine is not None:
            self._engine.kill()
            self._engine = None

    def _is_misread(self, status: Json) -> bool:
        """The API server has another opinion than ours: node-lifecycle's, from the time of an outage."""
        if self._writing is not None and not self._writing.done():
            return False
        return ready_of(status) != ready_of(self._status) or status.get("phase") != self._status["phase"]

    async def _live(self) -> None:
        if self._has_ended:
            return
        try:
            await self._pull()
            delay_s = _FIRST_BACK_OFF_S
            while (code := await self._run()) is not None:
                policy = self._pod["spec"].get("restartPolicy", "Always")
                if policy == "Never" or (policy == "OnFailure" and code == 0):
                    self._tell("Succeeded" if code == 0 else "Failed", self._last_state)
                    return
                message = f"back-off {delay_s:g}s restarting failed container"
                self._tell("Running", waiting("CrashLoopBackOff", message))
                await asyncio.sleep(delay_s)
                delay_s = min(2 * delay_s, _LAST_BACK_OFF_S)
                self._restarts += 1
        except ValueError as error:
            self._tell("Pending", waiting("CreateContainerConfigError", str(error)))
            print(f"{self._path}: {error}", file=sys.stderr)

    async def _pull(self) -> None:
        """Until the containers can be started."""
        asked = self._behaviour
        if asked.hold is Hold.IMAGE:
            self._tell("Pending", waiting("ImagePullBackOff", "Back-off pulling image"))
            while self._behaviour.hold is Hold.IMAGE:
                await self._await_change(None)
        elif asked.pull_s > 0:
            self._tell("Pending", waiting("ContainerCreating"))
            await asyncio.sleep(asked.pull_s)

    async def _run(self) -> int | None:
        """One run of the containers; answers the exit code."""
        self._has_run = True
        started_s, started_at = time.monotonic(), written_now()
        state: Json = {"running": {"startedAt": started_at}}
        flags = self._behaviour.engine
        if flags is not None:
            self._engine = self._means.engines.start(self._address, self._port(), flags)
        told_ready: bool | None = None
        while True:
            self._changed.clear()
            asked = self._behaviour
            due_in_s = asked.start_s - (time.monotonic() - started_s)
            if self._engine is not None:
                if self._engine.ended.done():
                    code = self._engine.ended.result()
                    self._engine = None
                    break
                ready = await self._engine.ready()
                pause_s: float | None = _READY_PROBE_EVERY_S if ready else _PROBE_EVERY_S
            else:
                if asked.exits is not None and due_in_s <= 0:
                    code = asked.exits
                    break
                ready = due_in_s <= 0
                pause_s = None if due_in_s <= 0 else due_in_s
            ready = ready and asked.hold is not Hold.UNREADY
            if ready is not told_ready:
                self._tell("Running", state, ready=ready)
                told_ready = ready
            await self._await_change(pause_s)
        self._last_state = terminated(code, started_at)
        return code

    async def _end(self) -> None:
        """The grace period: what runs goes on until it is idle or the time is over, then the pod is gone."""
        began_s = time.monotonic()
        with suppress(ValueError):
            while self._has_run and not self._has_ended and self._grace_left_s() > 0:
                wants_s = self._behaviour.stop_s - (time.monotonic() - began_s)
                if wants_s <= 0 and (self._engine is None or self._engine.ended.done() or await self._engine.idle()):
                    break
                await asyncio.sleep(_PROBE_EVERY_S)
        self._kill_engine()
        uid = self._pod["metadata"]["uid"]
        await self._means.api.insist("DELETE", self._path, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})

    def _grace_left_s(self) -> float:
        """The API's deletionTimestamp is when the grace ends (k8s.io/apimachinery ObjectMeta)."""
        ends = datetime.fromisoformat(self._pod["metadata"]["deletionTimestamp"])
        return (ends - datetime.now(UTC)).total_seconds()

    async def _await_change(self, at_most_s: float | None) -> None:
        """Until an annotation may have changed, the engine has ended, or time is over."""
        awaited: set[asyncio.Future[Any]] = {asyncio.ensure_future(self._changed.wait())}
        ended = set() if self._engine is None else {self._engine.ended}
        try:
            await asyncio.wait(awaited | ended, timeout=at_most_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in awaited:
                each.cancel()

    def _port(self) -> int:
        ports = [port["containerPort"] for each in self._pod["spec"]["containers"] for port in each.get("ports", ())]
        return int(ports[0]) if ports else 8000

    def _tell(self, phase: str, state: Json, *, ready: bool = False) -> None:
        """Write a new status, without waiting for it."""
        containers = Containers(state=state, last_state=self._last_state, ready=ready, restarts=self._restarts)
        self._status = status_of(self._pod, phase, containers, address=self._address, before=self._status)
        self._write()

    def _write(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
        # The uid guards against a new pod of that name.
        body = {"metadata": {"uid": self._pod["metadata"]["uid"]}, "status": self._status}
        writing = self._means.api.insist("PATCH", f"{self._path}/status", body, content_type=MERGE)
        self._writing = asyncio.create_task(writing)
