"""One number of a service as JSON, for KEDA's metrics-api scaler and for scripts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import FastAPI, Query, Request
from starlette.responses import Response

from adapters.serving.answers import answer, failure
from adapters.serving.published import NoNumber, Question, Withheld, number_in, publication_of
from adapters.serving.views import age_of
from autoscaler.domain.publication import DESIRED_REPLICAS
from autoscaler.ports import Publications

_STATUS = {
    Withheld.NOT_LOADED: 503,
    Withheld.UNKNOWN_SERVICE: 404,
    Withheld.UNKNOWN_METRIC: 404,
    Withheld.UNKNOWN_VARIANT: 404,
    Withheld.STALE: 503,
    Withheld.UNKNOWN_VALUE: 503,
}

Metric = Annotated[str, Query(description="desired_replicas or a signal", min_length=1)]
VariantName = Annotated[str | None, Query(description="Only this variant's replicas; left out: all.", min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetView:
    """The answer; ``value`` is what KEDA's ``valueLocation`` names."""

    at_s: float
    age_s: float
    stale: bool
    namespace: str
    name: str
    metric: str
    variant: str | None
    value: float


def add_targets(app: FastAPI, publications: Publications, now_s: Callable[[], float]) -> None:
    """A path for each number."""

    @app.get("/v1/targets/{namespace}/{name}", summary="One number of a service; 503 while it is not known")
    async def target(
        request: Request, namespace: str, name: str, metric: Metric = DESIRED_REPLICAS, variant: VariantName = None
    ) -> Response:
        try:
            question = Question(namespace=namespace, name=name, metric=metric, variant=variant)
        except ValueError as error:
            return failure(422, "WrongParameter", str(error))
        now = now_s()
        found = publication_of(publications, question, now_s=now)
        if isinstance(found, NoNumber):
            return _refusal(found)
        value = number_in(found, question)
        if isinstance(value, NoNumber):
            return _refusal(value)
        view = TargetView(
            at_s=found.at_s,
            age_s=age_of(found.at_s, now),
            stale=False,
            namespace=namespace,
            name=name,
            metric=metric,
            variant=variant,
            value=value,
        )
        return answer(request, view)


def _refusal(answer: NoNumber) -> Response:
    return failure(_STATUS[answer.reason], answer.reason, answer.message)
