"""The demo's configuration file: one service behind the gateway on free ports."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

import yaml

from loadtests.demo.engines import DemoEngine

SERVICE = "chat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where the demo's gateway and API listen."""

    gateway_port: int
    api_port: int

    @property
    def gateway_url(self) -> str:
        """Where requests go."""
        return f"http://127.0.0.1:{self.gateway_port}"

    @property
    def api_url(self) -> str:
        """The API and the dashboard."""
        return f"http://127.0.0.1:{self.api_port}"


def free_addresses() -> Addresses:
    """Two ports that are free now."""
    with socket.socket() as gateway, socket.socket() as api:
        gateway.bind(("127.0.0.1", 0))
        api.bind(("127.0.0.1", 0))
        return Addresses(gateway_port=gateway.getsockname()[1], api_port=api.getsockname()[1])


def configuration(engine: DemoEngine, addresses: Addresses, *, state_dir: Path) -> str:
    """The YAML text."""
    service: dict[str, object] = {
        "name": SERVICE,
        "engine": engine.kind.value,
        "slo": _slo(engine),
        "command": list(engine.command),
        "env": dict(engine.env),
        "model": engine.served_model,
        "readyPath": engine.ready_path,
        "minReplicas": engine.min_replicas,
        "maxReplicas": engine.max_replicas,
        "startup": f"{engine.startup_s:g}s",
        "startDeadline": f"{engine.ready_deadline_s:g}s",
        "maxNumSeqs": engine.max_num_seqs,
        "devices": {"count": 1 if engine.devices else 0},
        "behavior": {
            "scaleDown": {"stabilizationWindowSeconds": round(engine.reactive.down_window_s)},
        },
    }
    if engine.statistics is not None:
        service["statistics"] = {"protocol": engine.statistics.value}
    if engine.kv_tokens is not None:
        service["kvTokens"] = engine.kv_tokens
    if engine.step_time is not None:
        service["stepTime"] = dict(zip(("c", "d", "e", "a"), engine.step_time, strict=True))
    document: dict[str, object] = {
        "services": [service],
        "intervalSeconds": engine.interval_s,
        "gateway": {"port": addresses.gateway_port},
        "api": {"port": addresses.api_port},
        "stateDir": str(state_dir),
    }
    if engine.devices:
        document["inventory"] = {"devices": [{"id": device} for device in engine.devices]}
    return yaml.safe_dump(document, sort_keys=False)


def _slo(engine: DemoEngine) -> dict[str, str]:
    if engine.itl_s is None:
        return {"e2e": f"{engine.ttft_s:g}s"}
    return {"ttft": f"{engine.ttft_s:g}s", "itl": f"{engine.itl_s * 1e3:g}ms"}
