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
# A forecaster takes some 6 ms for five minutes: a week of two services in half a minute, a day of fourteen.
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
        each_steps = max(1, _MOST_STEPS // max(1, len(new)))
        for service, _ in new:
            past = rates[service.id]
            if isinstance(past, Unknown):
                _log.warning("%s: its forecast begins without a past: %s", service.id, past)
                continue
            begun = fresh(service, self._models, params)
            known[service.id] = replace(begun, forecaster=taught(self._models, service, past[-each_steps:]))
            _log.info(
                "%s: its forecast begins with the last %d rates of Prometheus", service.id, min(each_steps, len(past))
            )
        return ControllerState(services=known) if known else state

    def record(self, tick: Tick, plans: Plans, next_state: ControllerState) -> None:
        """As the journal. Raises PortError."""
        self._journal.record(tick, plans, next_state)


def taught(models: Models, service: Service, past: Sequence[PastRate]) -> Learned:
    """A forecaster's memory after these rates."""
    learned = models.forecaster.start()
    for each in past:
        rate = MeasuredRate(end_s=each.end_s, span_s=each.span_s, rate_rps=each.rate_rps, lead_s=service.startup_s)
        [learned] = models.forecaster.learn_all([learned], [rate])
    return learned


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
