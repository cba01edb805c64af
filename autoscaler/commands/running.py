"""``gpu-autoscaler run``: the controller, of a cluster or of this machine."""

from __future__ import annotations

import sys
from pathlib import Path

from autoscaler.commands.config_file import config_file
from autoscaler.commands.output import fail
from autoscaler.commands.stopping import stop_on_signals
from autoscaler.compose import collect_garbage_less_often
from autoscaler.kubernetes_run import KubernetesRun
from autoscaler.local_look import Onlooker
from autoscaler.local_run import LocalRun
from autoscaler.ports import PortError
from autoscaler.reporting import log_to


def run_controller(config: Path, *, dry_run: bool, leave_running: bool) -> None:
    """Run it until a signal tells it to stop."""
    log_to()
    collect_garbage_less_often()
    try:
        cluster = config_file(config).settings.kubernetes
        if cluster is not None:
            if dry_run or leave_running:
                fail("--dry-run and --leave-running are for this machine; in a cluster mode: Advise changes nothing")
            with KubernetesRun(config_file(config), cluster) as replica:
                stop_on_signals(replica.stop)
                replica.run()
            return
        if dry_run:
            with Onlooker(config_file(config).settings) as onlooker:
                stop_on_signals(onlooker.stop)
                onlooker.run()
            return
        with LocalRun(config_file(config), leave_running=leave_running) as local:
            stop_on_signals(local.stop)
            gateway = local.settings.gateway
            print(f"gateway    http://{gateway.host}:{gateway.port}/", file=sys.stderr)
            print(f"dashboard  {local.api.url}", file=sys.stderr, flush=True)
            local.run()
    except PortError as error:
        fail(str(error))
