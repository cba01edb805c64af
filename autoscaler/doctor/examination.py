"""All checks, one after the other: one that can't be made, or breaks, is a finding itself and hides no other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from adapters.local.devices import Nvml
from autoscaler.config import ConfigError, Settings
from autoscaler.doctor.autoscalers import (
    check_conditions,
    check_owners,
    check_specs,
    check_statuses,
    check_targets,
)
from autoscaler.doctor.control_plane import check_clock, check_definition, check_leader, check_version
from autoscaler.doctor.devices import check_devices, check_mig, check_nodes, check_sharing
from autoscaler.doctor.external_metrics import check_api_service, check_certificates, check_keda
from autoscaler.doctor.facts import ClusterFacts, known
from autoscaler.doctor.finding import CheckId, Finding, Findings, Severity, error, fine, warning
from autoscaler.doctor.followers import check_hpas
from autoscaler.doctor.gateways import check_gateways
from autoscaler.doctor.machine import check_commands, check_machine_devices, check_ports, check_state
from autoscaler.doctor.network import check_network
from autoscaler.doctor.pages import check_pages
from autoscaler.doctor.prometheus import check_prometheus
from autoscaler.doctor.quotas import check_quotas
from autoscaler.doctor.rights import check_rights
from autoscaler.doctor.scaled_objects import check_scaled_objects
from autoscaler.doctor.workloads import (
    check_budgets,
    check_deletion_cost,
    check_grace,
    check_readiness,
)
from autoscaler.ports import PortError

F = TypeVar("F")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Check(Generic[F]):
    """One check of facts. ``well``: what is so where it finds nothing."""

    id: CheckId
    look: Callable[[F], Findings]
    well: str


CLUSTER_CHECKS: Sequence[Check[ClusterFacts]] = (
    Check(CheckId.VERSION, check_version, "known to all that is used of it"),
    Check(CheckId.DEFINITION, check_definition, "InferenceAutoscaler is defined as this program defines it"),
    Check(CheckId.CLOCK, check_clock, "the API server's clock agrees with this machine's"),
    Check(
        CheckId.RIGHTS,
        lambda facts: check_rights(known(facts.rights)),
        "all rights that are needed are given",
    ),
    Check(CheckId.LEADER, check_leader, "no leader is elected, by the configuration"),
    Check(CheckId.SPEC, check_specs, "every InferenceAutoscaler can be used"),
    Check(CheckId.TARGET, check_targets, "every target is there and can be scaled"),
    Check(CheckId.OWNER, check_owners, "nobody else writes the replicas of a target"),
    Check(CheckId.STATUS, check_statuses, "every status is fresh"),
    Check(CheckId.CONDITIONS, check_conditions, "the controller complains of nothing"),
    Check(CheckId.METRICS, check_pages, "no replica is to be read"),
    Check(CheckId.PROMETHEUS, check_prometheus, "replicas are read directly"),
    Check(CheckId.GATEWAY, check_gateways, "no service has a gateway"),
    Check(CheckId.API_SERVICE, check_api_service, "external metrics are ours and answer"),
    Check(CheckId.CERTIFICATE, check_certificates, "no certificate is wrong or about to expire"),
    Check(CheckId.HPA, check_hpas, "every HPA that reads our number does as it says"),
    Check(CheckId.SCALED_OBJECT, check_scaled_objects, "every ScaledObject that asks us does as our number says"),
    Check(CheckId.KEDA, check_keda, "nothing to be said of KEDA"),
    Check(CheckId.NODE, check_nodes, "no node with devices is out of order"),
    Check(CheckId.MIG, check_mig, "MIG slices are as their labels say"),
    Check(CheckId.SHARING, check_sharing, "no GPU is shared by time slicing or MPS"),
    Check(CheckId.DEVICES, check_devices, "nodes offer what the targets ask for"),
    Check(CheckId.GRACE, check_grace, "pods may finish their requests"),
    Check(CheckId.READINESS, check_readiness, "pods say when they are ready"),
    Check(CheckId.DELETION_COST, check_deletion_cost, "no pod is to be marked: nothing is scaled by us"),
    Check(CheckId.NETWORK_POLICY, check_network, "no policy keeps the metrics pages from us"),
    Check(CheckId.DISRUPTION_BUDGET, check_budgets, "no budget is on the pods"),
    Check(CheckId.QUOTA, check_quotas, "quotas leave room up to maxReplicas"),
)


def examine_cluster(gather: Callable[[], ClusterFacts]) -> list[Finding]:
    """All findings on a cluster. ``gather`` raises PortError where the API server can't be reached."""
    try:
        facts = gather()
    except PortError as failure:
        fix = (
            "kubectl --kubeconfig FILE version; name the file: --kubeconfig, kubernetes.kubeconfig. "
            "To check this machine in place of a cluster: --config FILE"
        )
        return [error(CheckId.API_SERVER, "API server", f"it does not answer: {failure}", fix)]
    found = [fine(CheckId.API_SERVER, "API server", f"{facts.address} answers")]
    return [*found, *_run(CLUSTER_CHECKS, facts)]


def examine_machine(settings: Settings, nvml: Nvml | None, *, visible: str | None) -> list[Finding]:
    """All findings on this machine. ``visible``: our own CUDA_VISIBLE_DEVICES."""
    checks: Sequence[Check[Settings]] = (
        Check(CheckId.PORTS, check_ports, "gateway and API can listen"),
        Check(CheckId.COMMAND, check_commands, "the programs of all services are there"),
        Check(CheckId.STATE_DIRECTORY, check_state, "it can be written to"),
        Check(
            CheckId.MACHINE_DEVICES,
            partial(check_machine_devices, nvml=nvml, visible=visible),
            "there are devices for all services",
        ),
    )
    return _run(checks, settings)


def configuration_findings(source: str, outcome: Settings | ConfigError) -> list[Finding]:
    """What is wrong with a configuration file, or hardly meant."""
    if isinstance(outcome, ConfigError):
        return [
            error(CheckId.CONFIGURATION, f"{source}:{each.line}:{each.column}", str(each), each.path or source)
            for each in outcome.problems
        ]
    warnings = [warning(CheckId.CONFIGURATION, source, told) for told in outcome.warnings]
    return warnings or [fine(CheckId.CONFIGURATION, source, "it can be used")]


def _run(checks: Sequence[Check[F]], facts: F) -> list[Finding]:
    found: list[Finding] = []
    for check in checks:
        before = len(found)
        try:
            found.extend(check.look(facts))
        except PortError as failure:
            fix = "give the user of the kubeconfig the right to read it (docs/doctor.md)"
            found.append(warning(check.id, "", f"it could not be looked at: {failure}", fix))
        except Exception as failure:  # a fault of the check hides no other finding
            _log.debug("check %s failed", check.id, exc_info=True)
            told = f"the check itself failed: {type(failure).__name__}: {failure}"
            found.append(warning(check.id, "", told, "please report it"))
        if len(found) == before:
            found.append(fine(check.id, "", check.well))
    return found


def has_errors(findings: Sequence[Finding]) -> bool:
    """Whether one of them is an error."""
    return any(finding.severity is Severity.ERROR for finding in findings)
