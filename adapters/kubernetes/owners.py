"""Whose count a target's is: ours alone, or somebody else's too. Pure.

In Mode.SCALE there is room for one writer. In Mode.ADVISE nothing is written, so nobody can be in our way: an HPA or
ScaledObject that reads our number is the one that carries it out, and any other is worth a warning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from adapters.kubernetes.connection import FIELD_MANAGER
from adapters.kubernetes.count_history import GITOPS_MANAGERS, CountHistory, named_manager
from adapters.kubernetes.foreign_scalers import ForeignScaler
from adapters.kubernetes.target_view import FieldWriter, TargetView
from autoscaler.domain.resource import AutoscalerResource, Mode
from autoscaler.domain.service import ServiceId

# What HPAs and KEDA write with: their zeros are no person's wish to have the service off.
_SCALERS = ("kube-controller-manager", "keda", "keda-operator")
_IGNORE_DIFFERENCES = "keep spec.replicas out of what it applies (see docs/coexistence.md)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """``foreign_owner`` and ``suspended`` as in ``Target``; ``warnings``: what a person should know all the same."""

    foreign_owner: str | None = None
    suspended: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One resource's variant and the object that it wants to scale."""

    resource: AutoscalerResource
    variant: str
    view: TargetView


def contested(claims: Sequence[Claim]) -> Mapping[tuple[ServiceId, str], str]:
    """Those that another claim on the same pods goes before, with that one's name: the older resource has it.

    Names decide between resources of one second, so that every replica of ours gives the same answer.
    """
    first: dict[tuple[str, tuple[str, str, str, str]], Claim] = {}
    lost = {}
    for claim in sorted(claims, key=_seniority):
        keys = [(claim.view.namespace, ref.identity) for ref in claim.view.chain]
        holder = next((first[key] for key in keys if key in first), None)
        if holder is None:
            first.update(dict.fromkeys(keys, claim))
        else:
            lost[claim.resource.service.id, claim.variant] = _holder_name(claim, holder)
    return lost


def _seniority(claim: Claim) -> tuple[float, str, str, int]:
    names = [source.variant for source in claim.resource.sources]
    return claim.resource.created_s, claim.resource.namespace, claim.resource.name, names.index(claim.variant)


def _holder_name(claim: Claim, holder: Claim) -> str:
    if holder.resource.service.id == claim.resource.service.id:
        return f"variant {holder.variant} of the same resource, whose target is {claim.view.scaled} too,"
    return f"InferenceAutoscaler {holder.resource.name}, which is older and has the same target {claim.view.scaled},"


def ownership(
    view: TargetView,
    resource: AutoscalerResource,
    *,
    scalers: Sequence[ForeignScaler],
    history: CountHistory,
    other_replicas: int,
    contested_by: str | None = None,
) -> Ownership:
    """Who else has a say in the target's count. ``other_replicas``: those of the service's other variants;
    ``contested_by``: the resource that goes before this one (see ``contested``).
    """
    if contested_by is not None:
        return Ownership(foreign_owner=contested_by)
    on_it = _on_target(view, scalers)
    warnings = [_vpa_warning(scaler) for scaler in on_it if scaler.evicts]
    if resource.mode is Mode.ADVISE and view.refusal is not None:
        warnings.append(view.refusal)
    if view.paused:
        warnings.append(f"{view.scaled} is paused: its count is followed, a new pod template is not")
    if resource.mode is Mode.ADVISE:
        warnings += [_advice_warning(scaler) for scaler in on_it if scaler.writes_replicas and not scaler.follows_us]
        return Ownership(warnings=tuple(warnings))
    owner = _owner(view, on_it, history)
    if owner is None and (tool := _applied_once(view)) is not None:
        warnings.append(tool)
    suspended = _suspended(view, resource, history, other_replicas)
    return Ownership(foreign_owner=owner, suspended=suspended, warnings=tuple(warnings))


def _on_target(view: TargetView, scalers: Sequence[ForeignScaler]) -> list[ForeignScaler]:
    """Those aimed at the object or at one that it is made by or makes; of KEDA's pair the ScaledObject alone."""
    chain = {ref.identity for ref in view.chain}
    aimed = [
        scaler
        for scaler in scalers
        if scaler.namespace == view.namespace and scaler.target is not None and scaler.target.identity in chain
    ]
    names = {(scaler.kind, scaler.name) for scaler in aimed}
    return [
        scaler for scaler in aimed if scaler.made_by is None or (scaler.made_by.kind, scaler.made_by.name) not in names
    ]


def _owner(view: TargetView, on_it: Sequence[ForeignScaler], history: CountHistory) -> str | None:
    """The other writer, a clause that goes before "also writes the replica count"."""
    if view.refusal is not None:
        return f"{view.refusal}: its operator"
    writing = [str(scaler) for scaler in on_it if scaler.writes_replicas]
    if writing:
        return " and ".join(writing)
    applying = next(
        (each for each in view.writers if each.operation == "Apply" and each.manager in GITOPS_MANAGERS), None
    )
    if applying is not None:
        # What is applied server-side with the field in it is set back at every reconciliation.
        return f"{_tool(view, applying)}; {_IGNORE_DIFFERENCES}: it"
    opponent = history.opponent()
    if opponent is not None:
        again = f"{opponent.before} -> {opponent.after} at {_time(opponent.at_s)}"
        advice = f"; {_IGNORE_DIFFERENCES}" if opponent.manager in GITOPS_MANAGERS else ""
        return f"{named_manager(opponent.manager)}, which sets ours back ({again}){advice},"
    return None


def _applied_once(view: TargetView) -> str | None:
    """A tool that set the count when it made the object, and may never do so again (ignoreDifferences, a Helm release
    at rest). Whether it does is seen after our first write; one is answered by an owner, see ``CountHistory``.
    """
    for writer in view.writers:
        if writer.manager in GITOPS_MANAGERS:
            return f"{_tool(view, writer)} has set spec.replicas and may set it back; {_IGNORE_DIFFERENCES}"
    return None


def _suspended(
    view: TargetView, resource: AutoscalerResource, history: CountHistory, other_replicas: int
) -> str | None:
    """A zero that a person has set: the service is to be off, whatever its load.

    A variant that was made with 0 while others serve is none, nor is a service that may be at zero by itself.
    """
    if view.replicas > 0 or history.written == 0:
        return None
    # A zero written through /scale (kubectl scale, and ours) names nobody.
    writer = view.writers[0] if view.writers else None
    if writer is not None and writer.manager in (FIELD_MANAGER, *_SCALERS):
        return None
    had_more = history.written is not None and history.written > 0
    if not had_more and (resource.service.bounds.min_replicas < 1 or other_replicas > 0):
        return None
    by = "" if writer is None else f" by {writer.manager}"
    at_s = writer.at_s if writer is not None else None if history.changed is None else history.changed.at_s
    when = "" if at_s is None else f" at {_time(at_s)}"
    return f"{view.scaled} was set to 0{by}{when}; set it to 1 or more to hand it back"


def _tool(view: TargetView, writer: FieldWriter) -> str:
    return f"{view.deployers[0]} ({writer.manager})" if view.deployers else writer.manager


def _advice_warning(scaler: ForeignScaler) -> str:
    reads = ", ".join(scaler.reads) or "nothing"
    return f"{scaler} scales the target on {reads}, not on our number"


def _vpa_warning(scaler: ForeignScaler) -> str:
    """It leaves the count alone, so it is no rival; but each eviction is a cold start that nobody asked for."""
    return f"{scaler} ({', '.join(scaler.reads)}) evicts pods to change their requests: each one is a cold start"


def _time(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
