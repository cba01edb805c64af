"""Checks of the API server itself: its version, the definition of our resource, its clock, and who leads."""

from __future__ import annotations

from adapters.kubernetes.api_errors import NotFoundError
from adapters.kubernetes.contents import key_of
from adapters.kubernetes.election import lease_of
from adapters.kubernetes.raw_json import JsonObject, flag, inner, moment_s, objects, optional_text, text
from autoscaler.config.resource_crd import GROUP, PLURAL, VERSION, custom_resource_definition
from autoscaler.doctor.facts import ClusterFacts, known, named
from autoscaler.doctor.finding import CheckId, Findings, error, fine, of_each, warning
from autoscaler.manifests import (
    TOLERANCE_BY_DEFAULT_FROM,
    TOLERANCE_FROM,
    ZERO_FROM,
    KubernetesVersion,
)
from autoscaler.ports import PortError

_DEFINITION = f"CustomResourceDefinition {PLURAL}.{GROUP}"
_INSTALL = "gpu-autoscaler schema --resource | kubectl apply --server-side -f -"
_MOST_SKEW_S = 2.0


def check_version(facts: ClusterFacts) -> Findings:
    """What an HPA of this version can't do."""
    written = text(known(facts.version), "gitVersion")
    version = KubernetesVersion.parse(written)
    subject = f"Kubernetes {written}"
    if not version.at_least(TOLERANCE_FROM):
        yield warning(
            CheckId.VERSION,
            subject,
            "an HPA has no tolerance of its own here: it ignores steps of up to 10 %, so 1 of 10 replicas",
            "start kube-controller-manager with --horizontal-pod-autoscaler-tolerance=0, or use mode: Scale or KEDA",
        )
    elif not version.at_least(TOLERANCE_BY_DEFAULT_FROM):
        yield warning(
            CheckId.VERSION,
            subject,
            "an HPA's behavior.*.tolerance is dropped here unless its feature gate is on",
            "turn on the feature gate HPAConfigurableTolerance of API server and controller manager",
        )
    zero = "to zero by default" if version.at_least(ZERO_FROM) else "to zero only with the feature gate HPAScaleToZero"
    yield fine(CheckId.VERSION, subject, f"an HPA goes {zero}")


def check_definition(facts: ClusterFacts) -> Findings:
    """Whether the cluster has the definition that this program would install."""
    try:
        definition = known(facts.definition)
    except NotFoundError:
        yield error(CheckId.DEFINITION, _DEFINITION, "it is not installed", _INSTALL)
        return
    versions = {text(each, "name"): each for each in objects(definition, "spec", "versions")}
    ours = versions.get(VERSION)
    if ours is None or not flag(ours, "served"):
        message = f"it does not serve {VERSION}, only {', '.join(versions)}"
        yield error(CheckId.DEFINITION, _DEFINITION, message, _INSTALL)
        return
    for condition in objects(definition, "status", "conditions"):
        if text(condition, "type") == "Established" and text(condition, "status") != "True":
            told = optional_text(condition, "message") or ""
            yield error(CheckId.DEFINITION, _DEFINITION, f"it is not established: {told}", _INSTALL)
    wanted = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    different = _first_difference(wanted, inner(ours, "schema", "openAPIV3Schema"), "")
    if different is not None:
        message = f"its schema is of another version of this program: it differs at {different}"
        yield error(CheckId.DEFINITION, _DEFINITION, message, _INSTALL)


def _first_difference(wanted: object, given: object, path: str) -> str | None:
    """Where two schemas differ first; the API server drops empty values and keeps all else as it was applied."""
    if isinstance(wanted, dict) and isinstance(given, dict):
        for key in sorted(wanted.keys() | given.keys()):
            found = _first_difference(wanted.get(key), given.get(key), f"{path}.{key}" if path else key)
            if found is not None:
                return found
        return None
    if isinstance(wanted, list) and isinstance(given, list) and len(wanted) == len(given):
        for index, (one, other) in enumerate(zip(wanted, given, strict=True)):
            found = _first_difference(one, other, f"{path}[{index}]")
            if found is not None:
                return found
        return None
    empty: tuple[object, ...] = (None, {}, [], "", False)
    return None if wanted == given or (wanted in empty and given in empty) else path or "the root"


def check_clock(facts: ClusterFacts) -> Findings:
    """Whether this machine and the API server agree about the time."""
    skew_s = known(facts.clock).skew_s
    if abs(skew_s) > _MOST_SKEW_S:
        way = "ahead of" if skew_s > 0 else "behind"
        yield warning(
            CheckId.CLOCK,
            "API server",
            f"its clock is {abs(skew_s):.0f} s {way} this machine's: ages of statuses and pods are wrong by as much",
            "let an NTP client (chrony) run on both; `timedatectl status` tells",
        )


def check_leader(facts: ClusterFacts) -> Findings:
    """Whether a replica of the controller leads, and renews its Lease."""
    if facts.settings is not None and facts.settings.election is None:
        return
    leases = known(facts.leases)
    if not leases:
        yield error(
            CheckId.LEADER,
            "Lease",
            "there is none of the controller's: none has run here yet, or its Lease has another name or namespace",
            "install it (helm install), or name its configuration file: --config, --lease-namespace",
        )
    yield from of_each(CheckId.LEADER, named("Lease", leases), lambda subject, lease: _leader(facts, subject, lease))


def _leader(facts: ClusterFacts, subject: str, source: JsonObject) -> Findings:
    lease = lease_of(source)
    renewed_s = moment_s(source, "spec", "renewTime")
    log = f"kubectl -n {key_of(source).namespace} logs -l app.kubernetes.io/name=gpu-autoscaler --tail 50"
    if not lease.holder or renewed_s is None:
        yield error(CheckId.LEADER, subject, "nobody leads, so nothing is decided: no replica runs", log)
        return
    # Compared by the server's clock, as far as it is known: a leader's clock is hardly ever that of this machine.
    skew_s = facts.clock.skew_s if not isinstance(facts.clock, PortError) else 0.0
    age_s = facts.now_s + skew_s - renewed_s
    if age_s > lease.duration_s + _MOST_SKEW_S:
        message = f"{lease.holder} led, and has not renewed for {age_s:.0f} s (it should every {lease.duration_s} s)"
        yield error(CheckId.LEADER, subject, message, log)
    elif age_s < -_MOST_SKEW_S:
        message = f"the clock of {lease.holder} is {-age_s:.0f} s ahead: what it writes looks younger than it is"
        yield warning(CheckId.LEADER, subject, message, "let an NTP client (chrony) run on its node")
    else:
        yield fine(CheckId.LEADER, subject, f"{lease.holder} leads")
