"""How much is asked of a service now, and how much is foreseen."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from autoscaler.domain.capacity import RequestShape
from autoscaler.domain.judgement import JudgedReplica
from autoscaler.domain.reading import Measured, Unknown


class DemandSource(StrEnum):
    """Who counted the arrivals."""

    GATEWAY = "Gateway"
    ENGINES = "Engines"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Demand of one service at ``at_s``.

    ``short_rps``: arrivals per second over the short window, unobserved replicas taken as idle (for growing).
    ``burst_rps``: the higher rate that the last few ticks prove, beyond the chance in their counts.
    ``stable_rps``: as ``short_rps``, over the stable window.
    ``high_rps``: as ``load_rps``, with unobserved replicas taken as loaded as they were last seen (for shrinking).
    ``tick_rps``: over the last interval. ``felt_rps``: the same as replicas feel it, averaged over as long as a request
    lasts (policy/lasting.py): the forecaster's input. ``load_rps``: the measured rate to size for, ``short_rps`` or
    what is felt of it.
    ``backlog``: requests waiting, the share of stuck replicas capped. ``in_flight``: waiting and running.
    ``coverage``: observed share of the replica-seconds of the stable window, in [0, 1].
    ``window_full``: the stable window is covered by observations of this controller.
    ``attained``: share of the stable window's requests within the SLO. ``arrived``/``missed``: of the last interval.
    ``idle_s``: time since the last request was seen, 0 while there is any.
    ``judgements``: of the serving replicas with which anything is wrong, by name.
    """

    at_s: float
    source: DemandSource
    short_rps: Measured
    burst_rps: Measured
    stable_rps: Measured
    high_rps: Measured
    tick_rps: Measured
    tick_span_s: float
    felt_rps: Measured
    load_rps: Measured
    backlog: Measured
    in_flight: Measured
    shape: RequestShape | Unknown
    coverage: float
    window_full: bool
    attained: Measured
    arrived: Measured
    missed: Measured
    idle_s: Measured
    stuck: tuple[str, ...] = ()
    unobserved: tuple[str, ...] = ()
    judgements: tuple[JudgedReplica, ...] = ()
    asleep: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Demand foreseen for [at_s + lead_s, at_s + lead_s + 30 s].

    ``rps``: the ``quantile`` of the mean rate over that span; ``median_rps``: its median (the middle of the band);
    ``further_rps``: the further quantiles that were asked for.
    ``skill``: 1 - own loss / loss of persistence, recent; None until both have been scored.
    ``by``: the estimator that answered ("mixture", or "persistence" where skill is not positive).
    """

    at_s: float
    lead_s: float
    quantile: float
    rps: float
    median_rps: float
    skill: float | None
    by: str
    further_rps: tuple[float, ...] = ()
