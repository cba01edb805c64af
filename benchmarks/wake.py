"""From the first request to a service without replicas to its answer: ``python -m benchmarks.wake [--times 5]``.

A real controller at an interval of one second, emulated replicas, one service a time that has none. Printed beside what
the same replica takes to start when nobody but this program waits for it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import time
from functools import partial
from pathlib import Path

import yaml

from benchmarks.reaction import GIVE_UP_S, controller, latest
from loadtests.demo.configuration import Addresses
from loadtests.demo.engines import emulated
from loadtests.emulator.process import EmulatorProcess

STARTUP_S = 3.0


def configuration(names: list[str], addresses: Addresses, state_dir: Path) -> str:
    """One service a time, each idle at zero replicas."""
    command = list(emulated().command)
    command[command.index("--startup-s") + 1] = f"{STARTUP_S:g}"
    service = {
        "engine": "vllm",
        "slo": {"ttft": "2s", "itl": "100ms"},
        "command": command,
        "devices": {"count": 0},
        "minReplicas": 0,
        "startup": "5s",
    }
    document = {
        "intervalSeconds": 1,
        "stateDir": str(state_dir),
        "gateway": {"port": addresses.gateway_port},
        "api": {"port": addresses.api_port},
        "services": [{"name": name, "model": name, **service} for name in names],
    }
    return yaml.safe_dump(document)


def start_alone() -> float:
    """Seconds from the start of a replica's process until it is ready, with nothing in between."""
    began_s = time.monotonic()
    with EmulatorProcess("--startup-s", f"{STARTUP_S:g}", "--listen-after-s", "0.5") as engine:
        engine.await_status("/health", 200)
        return time.monotonic() - began_s


def wake(addresses: Addresses, name: str) -> float:
    """Seconds from the request to its answer, of one token. Raises RuntimeError where it is refused."""
    connection = http.client.HTTPConnection("127.0.0.1", addresses.gateway_port, timeout=GIVE_UP_S)
    body = json.dumps({"model": name, "prompt": "one", "max_tokens": 1})
    began_s = time.monotonic()
    try:
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {answer.decode(errors='replace')}")
        return time.monotonic() - began_s
    finally:
        connection.close()


def main() -> None:
    """Run it and print one line a time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    names = [f"service-{number}" for number in range(parser.parse_args().times)]

    def decided(addresses: Addresses) -> bool:
        return all(latest(addresses, name) is not None for name in names)

    with controller(partial(configuration, names), decided) as addresses:
        over = []
        for name in names:
            alone_s, took_s = start_alone(), wake(addresses, name)
            over.append(took_s - alone_s)
            print(f"{name}: start alone {alone_s:.2f} s, first answer after {took_s:.2f} s", flush=True)
    print(f"first answer after the start time: median {statistics.median(over):+.2f} s, largest {max(over):+.2f} s")


if __name__ == "__main__":
    main()
