"""Who leads, decided from sightings of one Lease and the own clock alone; pure.

The rule is that of Kubernetes' leader election (client-go ``tools/leaderelection``): a record that hasn't changed for
the length of a lease *as seen here* may be taken over, so no clock is ever compared with another machine's. A leader's
own belief ends ``renew_s`` after it *began* to write its last accepted renewal. The others can't have seen that
renewal earlier, and wait ``lease_s``, which is longer: so never do two lead, however slow or lost the answers are.
A record must be replaced at the version that was seen (the API server refuses others), which settles a race.

A Lease that is missing is created without a holder and then has to age like any other: one that was deleted under a
leader is not taken over while that leader still believes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from adapters.kubernetes.raw_json import JsonObject, inner, optional_text, optional_whole, text, written_moment

# What client-go's ReleaseOnCancel writes as the duration of a Lease that its holder gave up.
_RELEASED_S = 1
# No record makes others wait for longer, whatever it claims.
_LONGEST_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How long a lease lasts; with the defaults another takes over within 15 s of a leader's sudden death.

    ``lease_s``: others wait so long for a sign of the leader. ``renew_s``: a leader that could not renew for so long
    no longer leads. ``retry_s``: pause between two looks.
    """

    identity: str
    lease_s: int = 10
    renew_s: float = 7.0
    retry_s: float = 2.0

    def __post_init__(self) -> None:
        if not self.identity:
            raise ValueError("identity: wanted a name, got ''")
        if not 0 < self.retry_s < self.renew_s < self.lease_s <= _LONGEST_S:
            raise ValueError(
                f"wanted 0 < retry_s < renew_s < lease_s <= {_LONGEST_S}, "
                f"got {self.retry_s}, {self.renew_s} and {self.lease_s}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A Lease object as it was seen; ``record`` is equal for two sightings between which nobody wrote."""

    metadata: JsonObject
    spec: JsonObject
    holder: str
    duration_s: int
    transitions: int
    record: object

    @property
    def released(self) -> bool:
        """Whether its holder gave it up."""
        return not self.holder and self.duration_s == _RELEASED_S


def lease_of(source: JsonObject) -> Lease:
    """Translate a ``coordination.k8s.io/v1`` Lease. Raises ShapeError."""
    spec = inner(source, "spec")
    return Lease(
        metadata=inner(source, "metadata"),
        spec=spec,
        holder=optional_text(spec, "holderIdentity") or "",
        duration_s=optional_whole(spec, "leaseDurationSeconds") or 0,
        transitions=optional_whole(spec, "leaseTransitions") or 0,
        record=(text(source, "metadata", "uid"), dict(spec)),
    )


@dataclass(frozen=True, slots=True)
class Standing:
    """What one contender knows. ``record`` was first seen at ``since_s``; the contender leads before ``until_s``."""

    record: object = None
    since_s: float = -inf
    until_s: float = -inf

    def leads(self, now_s: float) -> bool:
        """Whether it leads; ``now_s``: read just now, from the clock of the other calls, which never runs back."""
        return now_s < self.until_s


@dataclass(frozen=True, slots=True)
class Create:
    """There is no Lease: create one with this ``spec``, and look again."""

    spec: JsonObject


@dataclass(frozen=True, slots=True)
class Write:
    """Replace the spec at the version that was seen; once accepted, ``accepted`` says what that means."""

    spec: JsonObject


@dataclass(frozen=True, slots=True)
class Wait:
    """Somebody else leads, or may do so; look again after ``pause_s``."""

    pause_s: float


Step = Create | Write | Wait


def step(standing: Standing, terms: Terms, seen: Lease | None, *, now_s: float) -> tuple[Standing, Step]:
    """What to do on a sighting of the Lease (None: there is none) at ``now_s``, read after the answer came."""
    if seen is None:
        return replace(standing, record=None, since_s=now_s), Create({"leaseDurationSeconds": terms.lease_s})
    if seen.record != standing.record:
        standing = replace(standing, record=seen.record, since_s=now_s)
    if seen.holder == terms.identity:
        kept = {key: seen.spec[key] for key in ("acquireTime", "leaseTransitions") if key in seen.spec}
        return standing, Write({**kept, **_held(terms, now_s)})
    if seen.holder:
        # A hand may name another holder before the time of the one that leads is over, and two may not lead.
        standing = replace(standing, until_s=-inf)
    free_s = standing.since_s + max(terms.lease_s, min(seen.duration_s, _LONGEST_S))
    if now_s < free_s and not seen.released:
        return standing, Wait(min(terms.retry_s, free_s - now_s))
    begun = {"acquireTime": written_moment(now_s), "leaseTransitions": seen.transitions + 1}
    return standing, Write({**begun, **_held(terms, now_s)})


def accepted(standing: Standing, terms: Terms, *, began_s: float) -> Standing:
    """After the server accepted a ``Write``; ``began_s`` was read before the request was sent."""
    return replace(standing, until_s=began_s + terms.renew_s)


def given_up(seen: Lease, *, now_s: float) -> JsonObject:
    """The spec by which a holder that has stopped to lead lets others in at once."""
    return {
        "holderIdentity": "",
        "leaseDurationSeconds": _RELEASED_S,
        "leaseTransitions": seen.transitions,
        "acquireTime": written_moment(now_s),
        "renewTime": written_moment(now_s),
    }


def _held(terms: Terms, now_s: float) -> JsonObject:
    return {
        "holderIdentity": terms.identity,
        "leaseDurationSeconds": terms.lease_s,
        "renewTime": written_moment(now_s),
    }
