"""From a load step to the changed number in the API: ``python -m benchmarks.reaction [--steps 5]``.

A real controller at an interval of one second with emulated replicas behind its gateway. Each step falls on a service
that had a few requests before and none now; the time runs from its first request to the first API answer with another
desired number.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import yaml

from loadtests.demo.configuration import Addresses, free_addresses
from loadtests.demo.engines import emulated
from loadtests.demo.stack import Stack, controller_command

STEP_RPS = 12.0
GIVE_UP_S = 60.0
SETTLE_S = 20.0


def configuration(names: list[str], addresses: Addresses, state_dir: Path) -> str:
    """One emulated service a step, each with one replica that serves a third of the step."""
    engine = emulated()
    service = {
        "engine": "vllm",
        "slo": {"ttft": "2s", "itl": "100ms"},
        "command": list(engine.command),
        "stepTime": {"c": "40ms", "d": "1ms", "e": "2us", "a": "100us"},
        "maxNumSeqs": engine.max_num_seqs,
        "devices": {"count": 0},
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


@contextmanager
def controller(configured: Callable[[Addresses, Path], str], ready: Callable[[Addresses], bool]) -> Iterator[Addresses]:
    """A controller with that configuration (made of its addresses and its state directory), once it is ready.

    Exits the program with the end of its log where it does not get ready.
    """
    addresses = free_addresses()
    with tempfile.TemporaryDirectory() as folder, Stack(Path(folder)) as stack:
        config = Path(folder) / "config.yaml"
        config.write_text(configured(addresses, Path(folder) / "state"))
        stack.start("controller", controller_command(config))
        deadline_s = time.monotonic() + GIVE_UP_S
        while not ready(addresses):
            if time.monotonic() > deadline_s:
                raise SystemExit(f"the controller did not get ready:\n{stack.log_tail('controller')}")
            time.sleep(0.2)
        yield addresses


def latest(addresses: Addresses, name: str) -> tuple[int, int] | None:
    """Desired and ready replicas as the API tells them now; None while it does not answer."""
    connection = http.client.HTTPConnection("127.0.0.1", addresses.api_port, timeout=5)
    try:
        connection.request("GET", f"/api/v1/services/{name}")
        decision = json.loads(connection.getresponse().read())["decision"]
        targets = decision["outcome"].get("targets", decision["current"])
        return sum(target["replicas"] for target in targets), int(decision["ready"])
    except (OSError, ValueError, KeyError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def ask(addresses: Addresses, name: str) -> None:
    """One completion."""
    connection = http.client.HTTPConnection("127.0.0.1", addresses.gateway_port, timeout=60)
    body = json.dumps({"model": name, "prompt": "one two three", "max_tokens": 40})
    try:
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        pass  # only the reaction counts here
    finally:
        connection.close()


def step(addresses: Addresses, name: str) -> float:
    """Seconds until the API shows another number than before the step."""
    before = latest(addresses, name)
    ended = threading.Event()

    def offer() -> None:
        while not ended.is_set():
            threading.Thread(target=ask, args=(addresses, name), daemon=True).start()
            ended.wait(1 / STEP_RPS)

    began_s = time.monotonic()
    threading.Thread(target=offer, daemon=True).start()
    try:
        while time.monotonic() - began_s < GIVE_UP_S:
            now = latest(addresses, name)
            if now is not None and before is not None and now[0] != before[0]:
                return time.monotonic() - began_s
            time.sleep(0.02)
        return float("inf")
    finally:
        ended.set()


def main() -> None:
    """Run it and print one line a step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5)
    names = [f"service-{number}" for number in range(parser.parse_args().steps)]

    def ready(addresses: Addresses) -> bool:
        return all((latest(addresses, name) or (0, 0))[1] >= 1 for name in names)

    with controller(partial(configuration, names), ready) as addresses:
        for name in names:  # a service that was used before: the lengths of its requests are known
            for _ in range(8):
                ask(addresses, name)
        time.sleep(SETTLE_S)
        took = []
        for name in names:
            took.append(step(addresses, name))
            print(f"{name}: {took[-1]:.2f} s", flush=True)
    print(f"load step to changed desired number: median {statistics.median(took):.2f} s, largest {max(took):.2f} s")


if __name__ == "__main__":
    main()
