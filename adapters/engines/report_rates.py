"""What happened between two looks at one page: rates of counters, means of sums."""

from __future__ import annotations

from adapters.engines.reading_report import PageReport, SignalReport
from autoscaler.domain.reading import Measured, Unknown, UnknownReason

_RATES = (
    ("arrivals_per_s", "arrivals_stock", "requests/s"),
    ("completed_per_s", "completed", "requests/s"),
    ("refused_per_s", "refused", "requests/s"),
    ("prompt_tokens_per_s", "prompt_tokens", "tokens/s"),
    ("generation_tokens_per_s", "generation_tokens", "tokens/s"),
    ("exec_per_s", "exec_count", "executions/s"),
)
_MEANS = (
    ("ttft_mean_s", "ttft_sum_s", "ttft_count", "s"),
    ("itl_mean_s", "itl_sum_s", "itl_count", "s"),
    ("e2e_mean_s", "e2e_sum_s", "e2e_count", "s"),
    ("queue_time_mean_s", "queue_time_sum_s", "queue_time_count", "s"),
    ("batch_mean", "exec_items", "exec_count", "items"),
)


def rates_between(before: PageReport, after: PageReport, *, span_s: float) -> tuple[SignalReport, ...]:
    """Rates over the ``span_s`` seconds (> 0) between two reports, always the same ones in the same order.

    Unknown where either value is, where a counter ran back (a new start in between), and a mean of nothing. The stock
    of arrivals may fall, by requests that were given up while they waited.
    """
    then = {signal.name: signal.value for signal in before.signals}
    now = {signal.name: signal.value for signal in after.signals}
    rates = []
    for name, counter, unit in _RATES:
        gained = _gained(then[counter], now[counter], may_fall=counter == "arrivals_stock")
        value = gained if isinstance(gained, Unknown) else gained / span_s
        rates.append(SignalReport(name=name, unit=unit, value=value))
    for name, total, count, unit in _MEANS:
        mean = _mean(_gained(then[total], now[total]), _gained(then[count], now[count]))
        rates.append(SignalReport(name=name, unit=unit, value=mean))
    return tuple(rates)


def _gained(then: Measured, now: Measured, *, may_fall: bool = False) -> Measured:
    if isinstance(now, Unknown):
        return now
    if isinstance(then, Unknown):
        return then
    if now < then and not may_fall:
        return Unknown(UnknownReason.RESET, f"was {then:g}, is {now:g}")
    return now - then


def _mean(total: Measured, count: Measured) -> Measured:
    if isinstance(total, Unknown):
        return total
    if isinstance(count, Unknown):
        return count
    return total / count if count >= 1 else Unknown(UnknownReason.NO_OBSERVATIONS, "none meanwhile")
