"""The command ``gpu-autoscaler doctor``."""

from __future__ import annotations

import json
import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from adapters.gpus.nvml_library import load_nvml
from adapters.wallclock import WallClock
from autoscaler.cluster_access import reach
from autoscaler.config import ConfigError, load
from autoscaler.config.kubernetes_settings import KubernetesSettings
from autoscaler.doctor.asking import Account
from autoscaler.doctor.examination import configuration_findings, examine_cluster, examine_machine, has_errors
from autoscaler.doctor.facts import ClusterFacts
from autoscaler.doctor.finding import Finding
from autoscaler.doctor.gathering import Scope, gather
from autoscaler.doctor.screen import findings_plain, findings_screen


class Form(StrEnum):
    """How findings are written; AUTO: a table on a terminal, JSON in a pipe."""

    AUTO = "auto"
    TABLE = "table"
    JSON = "json"


def doctor(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="The controller's configuration file, to be checked too.")
    ] = None,
    *,
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", "-n", help="Look at this namespace alone; may be given again.")
    ] = None,
    kubeconfig: Annotated[Path | None, typer.Option(help="How to reach the cluster, if not as the file says.")] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    account: Annotated[
        str,
        typer.Option("--as", help="Whose rights to check: system:serviceaccount:NAMESPACE:NAME of the controller."),
    ] = "",
    lease_namespace: Annotated[
        str | None, typer.Option(help="Namespace of the controller, where its Lease is.")
    ] = None,
    through_api_server: Annotated[
        bool, typer.Option("--through-api-server", help="Fetch the metrics pages through the API server's pod proxy.")
    ] = False,
    output: Annotated[
        Form, typer.Option("--output", "-o", help="table or json; by default json in a pipe.")
    ] = Form.AUTO,
) -> None:
    """Check a cluster, or this machine, and a configuration: each finding with its fix. Exit code 1 on an error."""
    findings: list[Finding] = []
    settings = None
    if config is not None:
        try:
            settings = load(config)
        except ConfigError as error:
            findings = configuration_findings(str(config), error)
        else:
            findings = configuration_findings(str(config), settings)
    cluster = settings.kubernetes if settings is not None else None
    if settings is not None and cluster is None:
        findings += examine_machine(settings, load_nvml(), visible=os.environ.get("CUDA_VISIBLE_DEVICES"))
    elif config is None or cluster is not None:
        scope = Scope(
            namespaces=tuple(namespace or ()) or (cluster.namespaces if cluster is not None else ()),
            account=Account(user=account),
            lease_namespace=lease_namespace or _lease_namespace(cluster) or Account(user=account).namespace,
            through_api_server=through_api_server,
        )
        findings += examine_cluster(lambda: _gather(cluster, scope, kubeconfig=kubeconfig, context=context))
    if output is Form.JSON or (output is Form.AUTO and not Console().is_terminal):
        print(json.dumps(findings_plain(findings), indent=2))
    else:
        Console().print(findings_screen(findings))
    if has_errors(findings):
        raise typer.Exit(1)


def _lease_namespace(settings: KubernetesSettings | None) -> str | None:
    """Where the controller's Lease is, as far as its configuration or our own pod tells."""
    election = settings.election if settings is not None else None
    named = election.namespace if election is not None else None
    return named or os.environ.get("POD_NAMESPACE")


def _gather(
    settings: KubernetesSettings | None, scope: Scope, *, kubeconfig: Path | None, context: str | None
) -> ClusterFacts:
    """The facts of the cluster that the options, the configuration or the surroundings name. Raises PortError."""
    path = kubeconfig or (settings.kubeconfig if settings is not None else None)
    chosen = context or (settings.context if settings is not None else None)
    api = reach(path, context=chosen)
    try:
        return gather(api, settings, scope, WallClock())
    finally:
        api.close()
