"""Stage 7: who gets the devices.

Services ask for replicas one unit at a time; each unit takes the first of its variants whose devices are free. Units
go in this order: those that a service of unknown demand holds; those a service must have (demand, or its minimum)
before those it merely keeps warm; higher priority first; demand before an idle minimum; first units of all before
second units of any; a service that waited its turn out before the holder; the holder before a newcomer. The order is
total (it ends in the name), so the same input gives the same answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autoscaler.domain.cluster import Device
from autoscaler.domain.plan import Reason, Stage, StageResult, VariantTarget
from autoscaler.domain.service import DeviceRequest, ServiceId


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A variant that may serve a unit: its devices and how many of its replicas are worth one unit."""

    variant: str
    devices: DeviceRequest | None
    per_unit: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What one service asks for.

    ``units``: replicas of the first option wanted; ``needed``: how many of them demand asks for; ``minimum``: how many
    the user insists on; ``most``: replicas of all variants together that it may have. ``held``: units asked for before.
    ``asked``/``ready``: replicas asked for before and ready now, by variant.
    ``locked``: units that may not be taken from it (its demand is not fully known).
    ``overdue``: it has waited for devices longer than its turn.
    """

    service: ServiceId
    priority: int
    units: int
    needed: int
    minimum: int
    most: int
    options: tuple[Option, ...]
    held: int
    asked: Mapping[str, int]
    ready: Mapping[str, int]
    locked: int = 0
    overdue: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What it gets, by variant in the order of its options, and why.

    ``leaving``: the replicas among ``targets`` that stay only until their replacements are ready.
    ``denied``: units it got no device for.
    """

    targets: tuple[VariantTarget, ...]
    leaving: Mapping[str, int]
    denied: int
    result: StageResult


@dataclass(frozen=True, slots=True)
class _Unit:
    claim: Claim
    index: int

    def rank(self) -> tuple[bool, bool, int, bool, int, bool, bool, str]:
        claim = self.claim
        needed = self.index < claim.needed
        must = needed or self.index < claim.minimum
        held = self.index < claim.held
        return (
            self.index >= claim.locked,
            not must,
            -claim.priority,
            not needed,
            self.index,
            not claim.overdue,
            not held,
            claim.service,
        )


def pack(claims: Sequence[Claim], devices: Sequence[Device], *, taken: Mapping[str, int]) -> dict[ServiceId, Allowance]:
    """Shares the healthy devices out; a service without device needs gets all it asks for.

    ``taken``: devices by kind of services that hold as they are and so make no claim.
    """
    existing = Counter(device.kind for device in devices if device.healthy)
    free = _less(existing, taken)
    # What nobody holds: only that may go to a replica which takes the place of a running one of another variant.
    spare = _less(free, _held_devices(claims))
    got: dict[ServiceId, Counter[str]] = {claim.service: Counter() for claim in claims}
    worth: dict[ServiceId, float] = {claim.service: 0.0 for claim in claims}
    denied: Counter[ServiceId] = Counter()
    contested: list[_Unit] = []
    for claim in claims:
        if claim.options[0].devices is None:  # nothing to share out: the first choice takes it all
            got[claim.service][claim.options[0].variant] = min(claim.units, claim.most)
        else:
            contested.extend(_Unit(claim, index) for index in range(claim.units))
    for unit in sorted(contested, key=lambda unit: unit.rank()):
        claim, mine = unit.claim, got[unit.claim.service]
        # Replicas of a larger variant may already cover this unit.
        while worth[claim.service] < unit.index + 1 - 1e-9:
            option = None if sum(mine.values()) >= claim.most else _choice(unit, mine, free, spare)
            if option is None:
                denied[claim.service] += 1
                break
            if option.devices is not None:
                free[option.devices.kind] -= option.devices.count
                if mine[option.variant] >= claim.asked.get(option.variant, 0):
                    spare[option.devices.kind] -= option.devices.count
            mine[option.variant] += 1
            worth[claim.service] += 1 / option.per_unit
    return {
        claim.service: _allowance(claim, got[claim.service], denied[claim.service], free, existing)
        for claim in sorted(claims, key=lambda claim: claim.service)
    }


def _choice(unit: _Unit, mine: Mapping[str, int], free: Mapping[str, int], spare: Mapping[str, int]) -> Option | None:
    """The first option that fits; in the place of a running replica, a new one only if that can run on meanwhile."""
    for option in unit.claim.options:
        kept = mine.get(option.variant, 0) < unit.claim.asked.get(option.variant, 0)
        instead = unit.index < unit.claim.held and not kept
        if _fits(option.devices, free) and (not instead or _fits(option.devices, spare)):
            return option
    return None


def _held_devices(claims: Sequence[Claim]) -> Counter[str]:
    held: Counter[str] = Counter()
    for claim in claims:
        for option in claim.options:
            if option.devices is not None:
                held[option.devices.kind] += option.devices.count * claim.asked.get(option.variant, 0)
    return held


def _less(devices: Mapping[str, int], taken: Mapping[str, int]) -> Counter[str]:
    return Counter({kind: max(0, count - taken.get(kind, 0)) for kind, count in devices.items()})


def _fits(request: DeviceRequest | None, free: Mapping[str, int]) -> bool:
    return request is None or free.get(request.kind, 0) >= request.count


def _allowance(
    claim: Claim, got: Mapping[str, int], denied: int, free: Counter[str], existing: Mapping[str, int]
) -> Allowance:
    leaving = _leaving(claim, got, free)
    targets = tuple(
        VariantTarget(variant=option.variant, replicas=got.get(option.variant, 0) + leaving.get(option.variant, 0))
        for option in claim.options
    )
    total = sum(target.replicas for target in targets)
    kinds = sorted({option.devices.kind for option in claim.options if option.devices is not None})
    if denied == 0:
        reason, detail = Reason.PLACED, ""
    elif not any(existing.get(kind, 0) for kind in kinds):
        reason, detail = Reason.NO_DEVICE_OF_KIND, f"no healthy device of kind {' or '.join(kinds)} exists"
    elif total < claim.held:
        reason = Reason.DEVICES_TAKEN
        detail = f"{claim.units} wanted, {total} placed: others need the {' and '.join(kinds)} devices more"
    else:
        reason = Reason.DEVICES_EXHAUSTED
        detail = f"{claim.units} wanted, {total} placed: no free {' or '.join(kinds)} device"
    result = StageResult(stage=Stage.PACK, replicas=total, reason=reason, detail=detail)
    return Allowance(targets=targets, leaving=leaving, denied=denied, result=result)


def _leaving(claim: Claim, got: Mapping[str, int], free: Counter[str]) -> dict[str, int]:
    """Ready replicas of variants that are being left, kept while those that replace them are not ready."""
    ready_worth = sum(
        min(claim.ready.get(option.variant, 0), got.get(option.variant, 0)) / option.per_unit
        for option in claim.options
    )
    leaving: Counter[str] = Counter()
    room = claim.most - sum(got.values())
    for option in claim.options:
        surplus = min(room, claim.ready.get(option.variant, 0) - got.get(option.variant, 0))
        while surplus > 0 and ready_worth < claim.units - 1e-9 and _fits(option.devices, free):
            if option.devices is not None:
                free[option.devices.kind] -= option.devices.count
            leaving[option.variant] += 1
            surplus, room, ready_worth = surplus - 1, room - 1, ready_worth + 1 / option.per_unit
    return dict(leaving)
