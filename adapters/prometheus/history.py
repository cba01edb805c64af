"""Past demand, as Prometheus has kept it: the arrivals of a service over each of many steps."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from adapters.prometheus.answers import RangedSeries
from adapters.prometheus.client import QueryClient
from adapters.prometheus.promql import duration, equal, matching, selector
from adapters.prometheus.settings import PrometheusSettings
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.service import ServiceId

# Labels in which several scrapes of one engine may differ.
_REPEATING = ("job", "endpoint", "service", "container", "prometheus")
_LEAST_SCRAPES = 4
_CHUNK_S = 86400.0
_QUERY_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PastReplicas:
    """How the series of a service's replicas are known, those that are gone included.

    ``labels``: label to its value; ``patterns``: label to a pattern of the whole value (RE2). ``counters``: of
    requests as the engine exports them, the better ones first: the first that is there counts. ``repeat_labels``: over
    which the engine's series repeat one another.
    """

    labels: Mapping[str, str]
    patterns: Mapping[str, str]
    counters: Sequence[str]
    repeat_labels: Sequence[str]


@dataclass(frozen=True, slots=True)
class PastRate:
    """Mean arrivals per second over [end_s - span_s, end_s]."""

    end_s: float
    span_s: float
    rate_rps: float


def read_history(
    settings: PrometheusSettings,
    services: Mapping[ServiceId, PastReplicas],
    *,
    now_s: float,
    timeout_s: float,
) -> Mapping[ServiceId, tuple[PastRate, ...] | Unknown]:
    """Each service's rates, oldest first, or why there are none; a step without any is a gap, and left out.
    All is over after ``timeout_s``.
    """
    late = Unknown(UnknownReason.TIMEOUT, f"no history within {timeout_s:g} s")
    found: dict[ServiceId, tuple[PastRate, ...] | Unknown] = dict.fromkeys(services, late)

    async def read() -> None:
        client = QueryClient(replace(settings, timeout_s=min(timeout_s, _QUERY_TIMEOUT_S)))

        async def read_one(service: ServiceId, replicas: PastReplicas) -> None:
            found[service] = await _rates(client, arrivals(settings, replicas), settings, now_s)

        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*(read_one(service, replicas) for service, replicas in services.items()))
        except TimeoutError:
            pass  # who is not read by now has no history
        finally:
            await client.close()

    asyncio.run(read())
    return found


def arrivals(settings: PrometheusSettings, replicas: PastReplicas) -> str:
    """The expression of a service's arrivals per second over one step.

    Series with fewer than four samples in the step are left out, since ``rate`` would miss part of what they count:
    scrapes too far apart make gaps, not figures that are too low.
    """
    matchers = [equal(name, value) for name, value in sorted(replicas.labels.items())]
    matchers += [matching(name, pattern) for name, pattern in sorted(replicas.patterns.items())]
    window = duration(settings.history.step_s)
    repeating = ",".join(dict.fromkeys((*replicas.repeat_labels, *settings.replica_labels, *_REPEATING)))
    parts = []
    for counter in replicas.counters:
        series = f"{selector([equal('__name__', counter), *matchers], settings.matchers)}[{window}]"
        sampled = f"rate({series}) and count_over_time({series}) >= {_LEAST_SCRAPES}"
        parts.append(f"sum(max without ({repeating}) ({sampled}))")
    return " or ".join(parts)


async def _rates(
    client: QueryClient, expression: str, settings: PrometheusSettings, now_s: float
) -> tuple[PastRate, ...] | Unknown:
    """Day after day, so that no answer is large."""
    step_s = settings.history.step_s
    last_s = math.floor(now_s / step_s) * step_s
    steps = max(0, int(settings.history.period_s // step_s))
    a_chunk = max(1, int(_CHUNK_S // step_s))
    rates: list[PastRate] = []
    for left in range(steps, 0, -a_chunk):
        start_s = last_s - (left - 1) * step_s
        end_s = last_s - max(0, left - a_chunk) * step_s
        answer = await client.series_between(expression, start_s=start_s, end_s=end_s, step_s=step_s)
        if isinstance(answer, Unknown):
            return answer
        rates += _points(answer, step_s)
    if not rates:
        return Unknown(UnknownReason.NO_OBSERVATIONS, "Prometheus has no past of its replicas")
    return tuple(rates)


def _points(answer: Sequence[RangedSeries], step_s: float) -> list[PastRate]:
    samples = [(at_s, float(value)) for series in answer for at_s, value in series.samples]
    return [PastRate(at_s, step_s, value) for at_s, value in samples if 0 <= value < math.inf]
