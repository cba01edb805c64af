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

from autoscaler.domain.cluster import Device, Quota
from autoscaler.domain.plan import Reason, Stage, StageResult, VariantTarget
from autoscaler.domain.service import DeviceRequest, ServiceId
from autoscaler.policy.pools import Pools


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A variant that may serve a unit: its devices and how many of its replicas are worth one unit.

    ``pools``, ``priority``: see ``Target``. ``most``: replicas of it that may be asked for now, None without a limit,
    and ``most_reason``/``most_detail`` why. ``placed``: the nodes of its present replicas.
    """

    variant: str
    devices: DeviceRequest | None
    per_unit: float = 1.0
    pools: tuple[str, ...] | None = None
    priority: int = 0
    most: int | None = None
    most_reason: Reason = Reason.QUOTA_EXHAUSTED
    most_detail: str = ""
    placed: tuple[tuple[str, ...], ...] = ()


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
class Holding:
    """Devices of a service that stays as it is and so makes no claim: ``replicas`` times ``devices``."""

    service: ServiceId
    devices: DeviceRequest
    replicas: int
    placed: tuple[tuple[str, ...], ...] = ()


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


@dataclass(frozen=True, slots=True)
class _Denial:
    """Why a unit got no device."""

    reason: Reason
    detail: str = ""


def pack(
    claims: Sequence[Claim],
    devices: Sequence[Device],
    *,
    holdings: Sequence[Holding] = (),
    quotas: Sequence[Quota] = (),
) -> dict[ServiceId, Allowance]:
    """Shares the healthy devices out; a service without device needs gets all it asks for.

    What runs keeps its devices as far as its units' turn comes before others'. A quota refuses growth alone.
    """
    sharing = _Sharing(claims, devices, holdings, quotas)
    got: dict[ServiceId, Counter[str]] = {claim.service: Counter() for claim in claims}
    worth: dict[ServiceId, float] = {claim.service: 0.0 for claim in claims}
    denied: dict[ServiceId, list[_Denial]] = {claim.service: [] for claim in claims}
    contested: list[_Unit] = []
    for claim in claims:
        if all(option.devices is None and option.most is None for option in claim.options):
            # nothing to share out: the first choice takes it all
            got[claim.service][claim.options[0].variant] = min(claim.units, claim.most)
        else:
            contested.extend(_Unit(claim, index) for index in range(claim.units))
    for unit in sorted(contested, key=lambda unit: unit.rank()):
        claim, mine = unit.claim, got[unit.claim.service]
        # Replicas of a larger variant may already cover this unit.
        while worth[claim.service] < unit.index + 1 - 1e-9:
            if sum(mine.values()) >= claim.most:
                denied[claim.service].append(_Denial(Reason.MAX_REPLICAS))
                break
            option = sharing.place(claim, mine, instead_of_running=unit.index < claim.held)
            if isinstance(option, _Denial):
                denied[claim.service].append(option)
                break
            mine[option.variant] += 1
            worth[claim.service] += 1 / option.per_unit
    return {
        claim.service: _allowance(claim, got[claim.service], denied[claim.service], sharing)
        for claim in sorted(claims, key=lambda claim: claim.service)
    }


class _Sharing:
    """The devices and quotas, while they are being shared out."""

    def __init__(
        self,
        claims: Sequence[Claim],
        devices: Sequence[Device],
        holdings: Sequence[Holding],
        quotas: Sequence[Quota],
    ) -> None:
        self._free = Pools(devices)
        # What nobody holds: only that may go to a replica which takes the place of a running one of another variant.
        self._spare = Pools(devices)
        self._left = {quota.name: quota.devices for quota in quotas}
        self._quotas: dict[tuple[ServiceId, str], list[str]] = {}
        for quota in quotas:
            for service in quota.services:
                self._quotas.setdefault((service, quota.kind), []).append(quota.name)
        for holding in holdings:
            for near in _nearest(holding.placed, holding.replicas):
                self._spend(holding.service, holding.devices)
                for pools in (self._free, self._spare):
                    pools.take(holding.devices, pools=None, priority=0, near=near)
        for claim in claims:
            for option in claim.options:
                if option.devices is not None:
                    for near in _nearest(option.placed, claim.asked.get(option.variant, 0)):
                        self._spare.take(option.devices, pools=option.pools, priority=option.priority, near=near)

    @property
    def kinds(self) -> frozenset[str]:
        return self._free.kinds

    def broken(self, kinds: Sequence[str]) -> str:
        """What is to be added to a sentence about devices of these kinds that are lacking."""
        found = self._free.broken(kinds)
        return f"; {found}" if found else ""

    def place(self, claim: Claim, mine: Mapping[str, int], *, instead_of_running: bool) -> Option | _Denial:
        """The first option that fits, its devices taken; or why none does."""
        denials = []
        for option in claim.options:
            number = mine.get(option.variant, 0)
            kept = number < claim.asked.get(option.variant, 0)
            denial = self._denied(claim, option, number, kept=kept, instead=instead_of_running and not kept)
            if denial is None:
                return option
            denials.append(denial)
        # A quota or a node that lacks says more than devices that lack: it is what a person can change.
        return next((denial for denial in denials if denial.reason is not Reason.DEVICES_EXHAUSTED), denials[0])

    def stays(self, claim: Claim, option: Option, index: int) -> bool:
        """A running replica goes on holding its devices, if they are still free."""
        if option.devices is None:
            return True
        near = option.placed[index] if index < len(option.placed) else ()
        taken = self._free.take(option.devices, pools=option.pools, priority=option.priority, near=near)
        return taken is not None

    def _denied(self, claim: Claim, option: Option, number: int, *, kept: bool, instead: bool) -> _Denial | None:
        if option.most is not None and number >= option.most and not (kept and _spares_running(option)):
            return _Denial(option.most_reason, option.most_detail)
        request = option.devices
        if request is None:
            return None
        if not kept and (lacking := self._over_quota(claim.service, request)) is not None:
            return _Denial(Reason.QUOTA_EXHAUSTED, lacking)
        near = option.placed[number] if kept and number < len(option.placed) else ()
        if not kept:
            spare = self._spare.take(request, pools=option.pools, priority=option.priority)
            if spare is None and instead:
                return _Denial(Reason.DEVICES_EXHAUSTED)
            near = spare or ()
        if self._free.take(request, pools=option.pools, priority=option.priority, near=near) is None:
            return _Denial(Reason.DEVICES_EXHAUSTED)
        self._spend(claim.service, request)
        return None

    def _over_quota(self, service: ServiceId, request: DeviceRequest) -> str | None:
        needed = request.count * request.pods
        for name in self._quotas.get((service, request.kind), ()):
            if self._left[name] < needed:
                return f"quota {name} on {request.kind} leaves {max(0, self._left[name])}, a replica needs {needed}"
        return None

    def _spend(self, service: ServiceId, request: DeviceRequest) -> None:
        for name in self._quotas.get((service, request.kind), ()):
            self._left[name] -= request.count * request.pods


def _spares_running(option: Option) -> bool:
    """A quota refuses growth alone; what no node takes is given up though it was asked for."""
    return option.most_reason is Reason.QUOTA_EXHAUSTED


def _nearest(placed: Sequence[tuple[str, ...]], replicas: int) -> list[tuple[str, ...]]:
    """The nodes to look at first for each of so many replicas."""
    return [*placed[:replicas], *[()] * (replicas - len(placed))]


def _allowance(claim: Claim, got: Mapping[str, int], denied: Sequence[_Denial], sharing: _Sharing) -> Allowance:
    leaving = _leaving(claim, got, sharing)
    targets = tuple(
        VariantTarget(variant=option.variant, replicas=got.get(option.variant, 0) + leaving.get(option.variant, 0))
        for option in claim.options
    )
    total = sum(target.replicas for target in targets)
    reason, detail = _why(claim, total, denied, sharing)
    result = StageResult(stage=Stage.PACK, replicas=total, reason=reason, detail=detail)
    return Allowance(targets=targets, leaving=leaving, denied=len(denied), result=result)


def _why(claim: Claim, total: int, denied: Sequence[_Denial], sharing: _Sharing) -> tuple[Reason, str]:
    if not denied:
        return Reason.PLACED, ""
    wanted = sorted({option.devices.kind for option in claim.options if option.devices is not None})
    placed = f"{claim.units} wanted, {total} placed"
    broken = sharing.broken(wanted)
    if wanted and not any(kind in sharing.kinds for kind in wanted):
        return Reason.NO_DEVICE_OF_KIND, f"no healthy device of kind {' or '.join(wanted)} exists{broken}"
    if denied[0].reason is not Reason.DEVICES_EXHAUSTED:
        return denied[0].reason, f"{placed}: {denied[0].detail}" if denied[0].detail else placed
    if total < claim.held:
        return Reason.DEVICES_TAKEN, f"{placed}: others need the {' and '.join(wanted)} devices more{broken}"
    return Reason.DEVICES_EXHAUSTED, f"{placed}: no free {' or '.join(wanted)} device{broken}"


def _leaving(claim: Claim, got: Mapping[str, int], sharing: _Sharing) -> dict[str, int]:
    """Ready replicas of variants that are being left, kept while those that replace them are not ready."""
    if all(count <= got.get(variant, 0) for variant, count in claim.ready.items()):
        return {}
    ready_worth = sum(
        min(claim.ready.get(option.variant, 0), got.get(option.variant, 0)) / option.per_unit
        for option in claim.options
    )
    leaving: Counter[str] = Counter()
    room = claim.most - sum(got.values())
    for option in claim.options:
        index = got.get(option.variant, 0)
        surplus = min(room, claim.ready.get(option.variant, 0) - index)
        while surplus > 0 and ready_worth < claim.units - 1e-9 and sharing.stays(claim, option, index):
            leaving[option.variant] += 1
            surplus, room, index = surplus - 1, room - 1, index + 1
            ready_worth += 1 / option.per_unit
    return dict(leaving)
