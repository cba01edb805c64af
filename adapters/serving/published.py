"""One number of a service, or why none may be given: what HPA, KEDA and the JSON API are answered from.

The sentences hold nothing that changes from one read to the next: KEDA and HPA make an event of each new one. They say
what to do, as they are what a person sees of a scaler that holds.
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
        return not_loaded(error)
    if found is None:
        return NoNumber(Withheld.UNKNOWN_SERVICE, _no_such_service(publications, question))
    return outdated(found, now_s=now_s) or found


def outdated(publication: Publication, *, now_s: float) -> NoNumber | None:
    """Why nothing of it may be relied on now; None where it may."""
    if publication.stale(now_s):
        return NoNumber(
            Withheld.STALE,
            f"{_told(publication)}, and after {publication.stale_after_s:g} s a decision counts as stale; see whether "
            "the autoscaler's leader runs and what it logs; until then the replicas stay as they are",
        )
    if publication.at_s - now_s > max(publication.stale_after_s, _CLOCKS_APART_S):
        return NoNumber(
            Withheld.STALE,
            f"{_told(publication)}, which has not come yet here; set the clocks of the nodes that run the autoscaler",
        )
    return None


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
        return no_metric(publication, question.metric)
    if question.variant is not None and not isinstance(value, Unknown):
        targets = dict(publication.targets)
        if question.variant not in targets:
            known = ", ".join(targets) or "none"
            return NoNumber(
                Withheld.UNKNOWN_VARIANT,
                f"{_who(publication)} has no variant {question.variant}; there are: {known}",
            )
        value = float(targets[question.variant])
    return measured(publication, question.metric, value)


def no_metric(publication: Publication, metric: str) -> NoNumber:
    """It tells of no such metric."""
    known = ", ".join([DESIRED_REPLICAS, *(name for name, _ in publication.signals)])
    return NoNumber(
        Withheld.UNKNOWN_METRIC,
        f"{_who(publication)} has no metric {metric}; set the metric's name to one of {known}",
    )


def measured(publication: Publication, metric: str, value: Measured) -> float | NoNumber:
    """One number of it, always finite."""
    if isinstance(value, Unknown):
        return NoNumber(
            Withheld.UNKNOWN_VALUE,
            f"{metric} of {_who(publication)} is {value}; until it is known the replicas stay as they are, see kubectl "
            f"-n {publication.namespace} describe inferenceautoscaler {publication.name}",
        )
    if not math.isfinite(value):
        return NoNumber(
            Withheld.UNKNOWN_VALUE, f"{metric} of {_who(publication)} is no number ({value}); the replicas stay"
        )
    return value


def not_loaded(error: UnavailableError) -> NoNumber:
    """No service is known yet."""
    return NoNumber(Withheld.NOT_LOADED, f"the services are not known yet ({error}); this passes once they are read")


def _told(publication: Publication) -> str:
    at = datetime.fromtimestamp(publication.at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"{_who(publication)} was last decided on at {at}"


def _who(publication: Publication) -> str:
    return f"service {publication.name} in namespace {publication.namespace}"


def _no_such_service(publications: Publications, question: Question) -> str:
    names = [each.name for each in publications.within(question.namespace)]
    nearest = difflib.get_close_matches(question.name, names, n=1) if len(names) <= _MOST_NAMES_COMPARED else []
    hint = f"the nearest name is {nearest[0]}" if nearest else f"there are {len(names)} services in it"
    return f"no service is called {question.name} in namespace {question.namespace}; {hint}"
