"""Replicas read through Prometheus, and forecasts that begin with the demand that it remembers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from adapters.engines.detection import TABLES
from adapters.engines.page_reader import PageReader
from adapters.engines.signals import Kind
from adapters.prometheus.history import PastRate, PastReplicas, read_history
from adapters.prometheus.promql import literal
from adapters.prometheus.settings import PrometheusSettings
from adapters.prometheus.source import PrometheusSource
from autoscaler.domain.learned import Learned
from autoscaler.domain.params import Params, Plans
from autoscaler.domain.reading import Unknown
from autoscaler.domain.resource import AutoscalerResource
from autoscaler.domain.service import Engine, Service, ServiceId
from autoscaler.domain.state import ControllerState, Tick
from autoscaler.policy.learning import fresh
from autoscaler.ports import Clock, Journal, MeasuredRate, Models

_log = logging.getLogger(__name__)
_HISTORY_TIMEOUT_S = 20.0
# Five minutes take forecasters some 6 ms, and half as much again for each service that learns beside the others: a week
# of two services, or a day and a half of fourteen, in half a minute.
_MOST_STEPS = 4000
# Signals that count requests, the nearest to their arrival first; a histogram counts what it observes.
_COUNTING = ("received", "ttft", "completed")
# What Kubernetes appends to an owner's name: a ReplicaSet's hash and five letters, or ordinals (a LeaderWorkerSet's
# pods have two).
_OF_AN_OWNER = r"-([a-z0-9]{1,10}-[a-z0-9]{5}|[0-9]+(-[0-9]+)?)"


def open_source(
    settings: PrometheusSettings,
    *,
    clock: Clock,
    engines: Mapping[ServiceId, Engine],
    interval_s: Callable[[], float],
) -> PrometheusSource:
    """The MetricsSource in place of direct scraping, which reads pages with the same reader."""
    return PrometheusSource(
        settings,
        clock=clock,
        reader=PageReader(),
        names={name for table in TABLES for name in table.sample_names()},
        prefixes=_once(prefix for table in TABLES for prefix in table.prefixes if prefix),
        engines=engines,
        interval_s=interval_s,
    )


class SeededJournal:
    """A Journal that begins with Prometheus's past for services of which there is no memory."""

    def __init__(
        self,
        journal: Journal,
        settings: PrometheusSettings,
        *,
        services: Callable[[], Sequence[tuple[Service, PastReplicas]]],
        params: Callable[[], Params],
        models: Models,
        now_s: Callable[[], float],
    ) -> None:
        """``services``: those to begin with, and how their replicas' series are known."""
        self._journal = journal
        self._settings = settings
        self._services = services
        self._params = params
        self._models = models
        self._now_s = now_s

    def restore(self) -> ControllerState | None:
        """As the journal has it, with the forecasters of services that it does not know taught their past."""
        state = self._journal.restore()
        known = {} if state is None else dict(state.services)
        params = self._params()
        if not params.forecasting or self._settings.history.period_s == 0:
            return state
        new = [(service, past) for service, past in self._services() if service.id not in known]
        rates = read_history(
            self._settings,
            {service.id: past for service, past in new},
            now_s=self._now_s(),
            timeout_s=_HISTORY_TIMEOUT_S,
        )
        each_steps = int(_MOST_STEPS / (1 + len(new) / 2))
        pasts: list[tuple[Service, Sequence[PastRate]]] = []
        for service, _ in new:
            past = rates[service.id]
            if isinstance(past, Unknown):
                _log.warning("%s: its forecast begins without a past: %s", service.id, past)
                continue
            pasts.append((service, past[-each_steps:]))
            _log.info("%s: its forecast begins with the last %d rates of Prometheus", service.id, len(pasts[-1][1]))
        for (service, _), learned in zip(pasts, taught(self._models, pasts), strict=True):
            known[service.id] = replace(fresh(service, self._models, params), forecaster=learned)
        return ControllerState(services=known) if known else state

    def record(self, tick: Tick, plans: Plans, next_state: ControllerState) -> None:
        """As the journal. Raises PortError."""
        self._journal.record(tick, plans, next_state)


def taught(models: Models, pasts: Sequence[tuple[Service, Sequence[PastRate]]]) -> list[Learned]:
    """The memories of forecasters after these rates, learned abreast."""
    memories = [models.forecaster.start() for _ in pasts]
    for step in range(max((len(past) for _, past in pasts), default=0)):
        going = [index for index, (_, past) in enumerate(pasts) if step < len(past)]
        told = models.forecaster.learn_all(
            [memories[index] for index in going], [_measured(pasts[index][0], pasts[index][1][step]) for index in going]
        )
        for index, learned in zip(going, told, strict=True):
            memories[index] = learned
    return memories


def _measured(service: Service, past: PastRate) -> MeasuredRate:
    return MeasuredRate(end_s=past.end_s, span_s=past.span_s, rate_rps=past.rate_rps, lead_s=service.startup_s)


def past_of_models(service: Service, models: Sequence[str]) -> PastReplicas:
    """On one machine, where replicas have no lasting names: all that serve these models."""
    return _past(service, labels={}, patterns={"model_name": "|".join(literal(name) for name in models)})


def past_of_pods(resource: AutoscalerResource) -> PastReplicas:
    """In a cluster: pods that bear the names of the resource's targets."""
    owners = "|".join(sorted({literal(source.target.name) for source in resource.sources}))
    return _past(
        resource.service, labels={"namespace": resource.namespace}, patterns={"pod": f"({owners}){_OF_AN_OWNER}"}
    )


def _past(service: Service, *, labels: Mapping[str, str], patterns: Mapping[str, str]) -> PastReplicas:
    tables = [table for table in TABLES if service.engine in (Engine.AUTO, table.engine)]
    counters = [
        alias.family(prefix) + ("_count" if signal.kind is Kind.HISTOGRAM else "")
        for table in tables
        for name in _COUNTING
        for signal in table.signals
        if signal.name == name
        for prefix in table.prefixes
        for alias in signal.aliases
    ]
    repeating = [label for table in tables for label in table.repeat_labels]
    return PastReplicas(labels=labels, patterns=patterns, counters=_once(counters), repeat_labels=_once(repeating))


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
