"""One number of a service, or why none may be given: what KEDA and the JSON API answer from.

The sentences hold nothing that changes from one read to the next: KEDA makes an event of each new one.
"""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from autoscaler.domain.publication import DESIRED_REPLICAS, Publication
from autoscaler.domain.reading import Measured, Unknown
from autoscaler.ports import Publications, UnavailableError

# Comparing a wrong name with more names than these takes longer than an answer may.
_MOST_NAMES_COMPARED = 200
_CLOCKS_APART_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which number is asked for.

    ``metric``: desired_replicas or a signal. ``variant``: desired_replicas of this variant alone; None: of all.
    Raises ValueError for a signal by variant.
    """

    namespace: str
    name: str
    metric: str = DESIRED_REPLICAS
    variant: str | None = None

    def __post_init__(self) -> None:
        if self.variant is not None and self.metric != DESIRED_REPLICAS:
            raise ValueError(f"variant: only {DESIRED_REPLICAS} is told by variant, not {self.metric}")


class Withheld(StrEnum):
    """Why there is no number."""

    NOT_LOADED = "NotLoaded"
    UNKNOWN_SERVICE = "UnknownService"
    UNKNOWN_METRIC = "UnknownMetric"
    UNKNOWN_VARIANT = "UnknownVariant"
    STALE = "Stale"
    UNKNOWN_VALUE = "UnknownValue"


@dataclass(frozen=True, slots=True)
class NoNumber:
    """No number, the reason, and what to do about it."""

    reason: Withheld
    message: str


def publication_of(publications: Publications, question: Question, *, now_s: float) -> Publication | NoNumber:
    """The service's latest, unless it is too old to be relied on."""
    try:
        found = publications.of(question.namespace, question.name)
    except UnavailableError as error:
        return NoNumber(Withheld.NOT_LOADED, f"not all services are known yet: {error}; ask again in a few seconds")
    if found is None:
        return NoNumber(Withheld.UNKNOWN_SERVICE, _no_such_service(publications, question))
    told_at = datetime.fromtimestamp(found.at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if found.stale(now_s):
        return NoNumber(
            Withheld.STALE,
            f"{found.name} was last decided on at {told_at}, and after {found.stale_after_s:g} s a decision "
            "counts as stale: no controller decides; look at its pods and their log",
        )
    if found.at_s - now_s > max(found.stale_after_s, _CLOCKS_APART_S):
        return NoNumber(
            Withheld.STALE,
            f"{found.name} was last decided on at {told_at}, which has not come yet here; set the clocks of the nodes "
            "that run the controller",
        )
    return found


def number_of(publications: Publications, question: Question, *, now_s: float) -> float | NoNumber:
    """The number, always finite."""
    found = publication_of(publications, question, now_s=now_s)
    return found if isinstance(found, NoNumber) else number_in(found, question)


def activity_of(publications: Publications, question: Question, *, now_s: float) -> bool | NoNumber:
    """Whether at least one replica is wanted.

    That is the decision's to say. While it gives no number of replicas, a signal above zero is a sign of work; a
    signal of zero is no sign of idleness (an empty queue, say, before busy replicas).
    """
    found = publication_of(publications, question, now_s=now_s)
    if isinstance(found, NoNumber):
        return found
    desired = number_in(found, Question(namespace=found.namespace, name=found.name, variant=question.variant))
    if not isinstance(desired, NoNumber):
        return desired > 0
    if question.metric == DESIRED_REPLICAS:
        return desired
    signal = number_in(found, question)
    return True if not isinstance(signal, NoNumber) and signal > 0 else desired


def number_in(publication: Publication, question: Question) -> float | NoNumber:
    """The number in a publication that may be relied on, always finite."""
    value = publication.value(question.metric)
    if value is None:
        known = ", ".join([DESIRED_REPLICAS, *sorted(name for name, _ in publication.signals)])
        return NoNumber(
            Withheld.UNKNOWN_METRIC, f"{publication.name} has no metric {question.metric}; there are: {known}"
        )
    if question.variant is not None and not isinstance(value, Unknown):
        targets = dict(publication.targets)
        if question.variant not in targets:
            known = ", ".join(targets) or "none"
            return NoNumber(
                Withheld.UNKNOWN_VARIANT, f"{publication.name} has no variant {question.variant}; there are: {known}"
            )
        value = float(targets[question.variant])
    return _known(publication, question.metric, value)


def _known(publication: Publication, metric: str, value: Measured) -> float | NoNumber:
    if isinstance(value, Unknown):
        return NoNumber(
            Withheld.UNKNOWN_VALUE,
            f"{metric} of {publication.name} is {value}; replicas are held until it is known again",
        )
    if not math.isfinite(value):
        return NoNumber(Withheld.UNKNOWN_VALUE, f"{metric} of {publication.name} is no number: {value}")
    return value


def _no_such_service(publications: Publications, question: Question) -> str:
    names = [each.name for each in publications.within(question.namespace)]
    nearest = difflib.get_close_matches(question.name, names, n=1) if len(names) <= _MOST_NAMES_COMPARED else []
    hint = f"the nearest name is {nearest[0]}" if nearest else f"there are {len(names)} services in it"
    return f"no service is called {question.name} in namespace {question.namespace}; {hint}"
