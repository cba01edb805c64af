"""What an HPA reads: the values of one metric within a namespace, or the sentence that says why there are none.

An HPA adds up the items that it gets and compares no time (k8s.io/kubernetes, podautoscaler/replica_calculator.go), so
whatever is stale, unknown or only half known is an error: the HPA then keeps its replicas, and shows the sentence.
The sentences hold nothing that changes from one read to the next, or each read would make a new event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from adapters.serving.external.answers import Answer, FailedError, Failure, json_bytes
from adapters.serving.external.discovery import GROUP, KIND, VERSION
from adapters.serving.external.quantity import quantity
from adapters.serving.external.selector import Selector, SelectorError, parse_selector
from adapters.serving.published import NoNumber, measured, no_metric, not_loaded, outdated
from autoscaler.domain.publication import DESIRED_REPLICAS, Publication
from autoscaler.domain.reading import Measured, Unknown
from autoscaler.ports import Publications, UnavailableError

SERVICE = "service"
VARIANT = "variant"
_KEDA_LABEL = "scaledobject.keda.sh/name"
_MOST_NAMES = 10


def read_metric(
    publications: Publications, *, namespace: str, metric: str, label_selector: str, now_s: float
) -> Answer:
    """An ExternalMetricValueList with one item per matching service. Raises FailedError.

    Selectors may ask for a publication's labels and for ``service``, the name of its InferenceAutoscaler; one of
    ``desired_replicas`` may ask for a ``variant`` too, and then gets that one's number instead of all together.
    """
    try:
        selector = parse_selector(label_selector)
    except SelectorError as error:
        raise FailedError(Failure.BAD_REQUEST, f"labelSelector {label_selector!r}: {error}") from error
    try:
        matching = [
            each
            for publication in _asked(publications, namespace, selector)
            for each in _series(publication, metric, selector)
            if selector.matches(each.labels)
        ]
        if not matching:
            raise FailedError(Failure.NOT_FOUND, _nothing(publications.within(namespace), namespace, selector))
    except UnavailableError as error:
        raise FailedError(Failure.UNAVAILABLE, not_loaded(error).message) from error
    if len(matching) > 1:
        _check_sum(matching, namespace, metric, selector)
    items = [_item(each, metric, now_s) for each in matching]
    return Answer(
        body=json_bytes({"kind": KIND, "apiVersion": f"{GROUP}/{VERSION}", "metadata": {}, "items": items}),
        headers=(("Cache-Control", "no-store"),),
    )


@dataclass(frozen=True, slots=True)
class _Series:
    """One number of one service, with all that selectors may ask for."""

    publication: Publication
    labels: Mapping[str, str]
    value: Measured | None


def _asked(publications: Publications, namespace: str, selector: Selector) -> Sequence[Publication]:
    """Those that may match; without a look through all of them where one is named."""
    service = selector.only(SERVICE)
    if service is None:
        return publications.within(namespace)
    publication = publications.of(namespace, service)
    return () if publication is None else (publication,)


def _series(publication: Publication, metric: str, selector: Selector) -> Iterator[_Series]:
    labels = {**dict(publication.labels), SERVICE: publication.name}
    whole = publication.value(metric)
    if metric != DESIRED_REPLICAS or not selector.mentions(VARIANT):
        yield _Series(publication, labels, whole)
    elif isinstance(whole, Unknown):  # of every variant
        yield _Series(publication, {**labels, VARIANT: selector.only(VARIANT) or ""}, whole)
    else:
        for variant, replicas in publication.targets:
            yield _Series(publication, {**labels, VARIANT: variant}, float(replicas))


def _check_sum(matching: Sequence[_Series], namespace: str, metric: str, selector: Selector) -> None:
    """Numbers of replicas of several services make no sense as a sum, other sums only where they were asked for."""
    if metric != DESIRED_REPLICAS and selector.requirements:
        return
    services = [each.publication for each in matching]
    if all(service is services[0] for service in services):
        variants = ", ".join(each.labels[VARIANT] for each in matching)
        raise FailedError(
            Failure.BAD_REQUEST,
            f"{len(matching)} variants of service {services[0].name} match and an HPA would add up their {metric}; "
            f"select one of them, {VARIANT}: NAME, NAME being one of {variants}",
        )
    raise FailedError(
        Failure.BAD_REQUEST,
        f"{len(matching)} services of namespace {namespace} match and an HPA would add up their {metric}; "
        f"add a selector with matchLabels {{{SERVICE}: NAME}}, NAME being one of {_names(services)}",
    )


def _nothing(existing: Sequence[Publication], namespace: str, selector: Selector) -> str:
    if any(requirement.key == _KEDA_LABEL for requirement in selector.requirements):
        return (
            f"this HPA was made by KEDA, but APIService {VERSION}.{GROUP} does not lead to KEDA's adapter; "
            "give it back to KEDA, and let the ScaledObject ask this autoscaler by a trigger of type external"
        )
    if not existing:
        return (
            f"there is no InferenceAutoscaler in namespace {namespace}; an HPA reads those of its own namespace, "
            "so create one there"
        )
    service = selector.only(SERVICE)
    named = next((each for each in existing if each.name == service), None)
    if named is not None and selector.mentions(VARIANT):
        variants = ", ".join(variant for variant, _ in named.targets)
        return (
            f"service {service} in namespace {namespace} has no variant as the metric's selector asks for; "
            f"its variants are {variants or 'not decided on yet'}"
        )
    if service is not None and named is None:
        return (
            f"there is no InferenceAutoscaler {service} in namespace {namespace}; "
            f"set the metric's selector to {SERVICE}: NAME, NAME being one of {_names(existing)}"
        )
    return (
        f"none of the {len(existing)} services in namespace {namespace} has the labels that the metric's selector "
        f"asks for; set it to {SERVICE}: NAME, NAME being one of {_names(existing)}"
    )


def _item(series: _Series, metric: str, now_s: float) -> dict[str, object]:
    publication = series.publication
    if series.value is None:
        raise FailedError(Failure.NOT_FOUND, no_metric(publication, metric).message)
    value = outdated(publication, now_s=now_s) or measured(publication, metric, series.value)
    if isinstance(value, NoNumber):
        raise FailedError(Failure.UNAVAILABLE, value.message)
    told_at = _rfc3339(int(publication.at_s))
    try:
        told = quantity(value)
    except ValueError as error:
        raise FailedError(
            Failure.UNAVAILABLE,
            f"{metric} of service {publication.name} can't be told: {error}; until it can the replicas stay",
        ) from error
    return {"metricName": metric, "metricLabels": series.labels, "timestamp": told_at, "value": told}


def _names(publications: Sequence[Publication]) -> str:
    names = [each.name for each in publications]
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


@lru_cache(maxsize=1024)
def _rfc3339(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
