"""``gpu-autoscaler doctor``: gather, judge, print."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import typer
from rich.console import Console

from adapters.gpus.nvml_library import load_nvml
from adapters.wallclock import WallClock
from autoscaler.cluster_access import reach
from autoscaler.commands.output import Output
from autoscaler.config import ConfigError, Settings, load
from autoscaler.config.kubernetes_settings import KubernetesSettings
from autoscaler.doctor.asking import Account
from autoscaler.doctor.examination import configuration_findings, examine_cluster, examine_machine, has_errors
from autoscaler.doctor.facts import ClusterFacts
from autoscaler.doctor.finding import Finding
from autoscaler.doctor.gathering import ReadThrough, Scope, gather
from autoscaler.doctor.prometheus import read_through
from autoscaler.doctor.screen import findings_plain, findings_screen


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command's options say; see there."""

    config: Path | None
    namespaces: tuple[str, ...]
    kubeconfig: Path | None
    context: str | None
    account: str
    lease_namespace: str | None
    through_api_server: bool


def examine(asked: Asked, *, output: Output) -> None:
    """Examine, print, and end with exit code 1 where there is an error."""
    config = asked.config
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
            namespaces=asked.namespaces or (cluster.namespaces if cluster is not None else ()),
            account=Account(user=asked.account),
            lease_namespace=asked.lease_namespace or _lease_namespace(cluster) or Account(user=asked.account).namespace,
            through_api_server=asked.through_api_server,
        )
        through = None if settings is None else _through_prometheus(settings)
        findings += examine_cluster(
            lambda: _gather(cluster, scope, through, kubeconfig=asked.kubeconfig, context=asked.context)
        )
    if output is Output.JSON or (output is Output.AUTO and not Console().is_terminal):
        print(json.dumps(findings_plain(findings), indent=2))
    else:
        Console().print(findings_screen(findings))
    if has_errors(findings):
        raise typer.Exit(1)


def _through_prometheus(settings: Settings) -> ReadThrough | None:
    """How the pages are read through Prometheus, where they are."""
    if settings.prometheus is None:
        return None
    return partial(read_through, settings.prometheus, clock=WallClock(), interval_s=settings.params.interval_s)


def _lease_namespace(settings: KubernetesSettings | None) -> str | None:
    """Where the controller's Lease is, as far as its configuration or our own pod tells."""
    election = settings.election if settings is not None else None
    named = election.namespace if election is not None else None
    return named or os.environ.get("POD_NAMESPACE")


def _gather(
    settings: KubernetesSettings | None,
    scope: Scope,
    through: ReadThrough | None,
    *,
    kubeconfig: Path | None,
    context: str | None,
) -> ClusterFacts:
    """The facts of the cluster that the options, the configuration or the surroundings name. Raises PortError."""
    path = kubeconfig or (settings.kubeconfig if settings is not None else None)
    chosen = context or (settings.context if settings is not None else None)
    api = reach(path, context=chosen)
    try:
        return gather(api, settings, scope, WallClock(), read_through=through)
    finally:
        api.close()
