"""``gpu-autoscaler gateway``: the gateway of a cluster."""

from __future__ import annotations

import sys
from pathlib import Path

from autoscaler.commands.config_file import config_file
from autoscaler.commands.output import fail
from autoscaler.commands.stopping import stop_on_signals
from autoscaler.compose import collect_garbage_less_often
from autoscaler.gateway_run import GatewayRun
from autoscaler.ports import PortError
from autoscaler.reporting import log_to


def run_gateway(config: Path) -> None:
    """Run it until a signal tells it to stop."""
    log_to()
    collect_garbage_less_often()
    try:
        cluster = config_file(config).settings.kubernetes
        if cluster is None:
            fail("gateway is for a cluster: the configuration has no key kubernetes; `run` starts one on this machine")
        with GatewayRun(config_file(config), cluster) as running:
            stop_on_signals(running.stop)
            print(f"gateway  port {running.identity.port}, metrics {running.identity.metrics_port}", file=sys.stderr)
            running.run()
    except PortError as error:
        fail(str(error))
