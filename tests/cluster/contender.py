"""``python -m tests.cluster.contender KUBECONFIG NAMESPACE IDENTITY``: a process that contends for a Lease.

Prints a line ``<monotonic seconds> leads`` or ``... follows`` whenever that changes; gives up properly on SIGTERM.
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from time import monotonic

from adapters.kubernetes.connection import KubernetesApi
from adapters.kubernetes.election import Terms
from adapters.kubernetes.leadership import Leadership
from adapters.wallclock import WallClock


def main(kubeconfig: str, namespace: str, identity: str) -> None:
    """Until SIGTERM."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
    api = KubernetesApi.of_kubeconfig(Path(kubeconfig))
    leadership = Leadership(
        api, namespace=namespace, name="gpu-autoscaler", terms=Terms(identity=identity), now_s=WallClock().now_s
    )
    leadership.start()
    led = None
    while not ended.wait(0.02):
        leads = leadership.is_leader()
        if leads != led:
            print(monotonic(), "leads" if leads else "follows", flush=True)
            led = leads
    print(monotonic(), "follows", flush=True)
    leadership.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
