"""Past demand from range queries: steps, gaps, chunks, and what the forecasters learn of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from adapters.prometheus.history import PastRate, PastReplicas, arrivals, read_history
from adapters.prometheus.settings import HistorySettings, PrometheusSettings
from autoscaler.compose import NoJournal, build_models
from autoscaler.domain.params import Params
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.service import Service, ServiceId
from autoscaler.domain.state import ControllerState
from autoscaler.policy.learning import fresh
from autoscaler.ports import Question
from autoscaler.through_prometheus import SeededJournal, past_of_models, taught
from tests.adapters_engines.conftest import Serve
from tests.policy.world import service

CHAT = ServiceId("chat")
PAST = PastReplicas(
    labels={"namespace": "llm"},
    patterns={"pod": "chat-.*"},
    counters=("vllm:time_to_first_token_seconds_count",),
    repeat_labels=("tp_rank",),
)
NOW_S = 1_000_000 * 300.0 + 17.0


@dataclass
class Kept:
    """Answers range queries with the rates that it has at their steps."""

    rates: Mapping[float, float | str]
    forms: list[dict[str, str]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.forms.append(form)
        assert request.path == "/api/v1/query_range"
        start_s, end_s, step_s = float(form["start"]), float(form["end"]), float(form["step"].removesuffix("ms")) / 1000
        steps = [start_s + number * step_s for number in range(math.floor((end_s - start_s) / step_s) + 1)]
        values = [[at_s, str(self.rates[at_s])] for at_s in steps if at_s in self.rates]
        result = [{"metric": {}, "values": values}] if values else []
        return web.json_response({"status": "success", "data": {"resultType": "matrix", "result": result}})


def settings(url: str, **history: float) -> PrometheusSettings:
    return PrometheusSettings(url=url, history=HistorySettings(**history))


def history(asked: PrometheusSettings) -> tuple[PastRate, ...] | Unknown:
    return read_history(asked, {CHAT: PAST}, now_s=NOW_S, timeout_s=30.0)[CHAT]


def test_a_week_comes_in_days_and_gaps_stay_gaps(serve: Serve) -> None:
    last_s = 1_000_000 * 300.0
    all_steps = [last_s - number * 300.0 for number in reversed(range(2016))]
    there = {at_s: float(number) for number, at_s in enumerate(all_steps) if number % 10 != 3}
    kept = Kept(there)
    found = history(settings(serve(kept.answer)))
    assert not isinstance(found, Unknown)
    assert found == tuple(PastRate(at_s, 300.0, rate) for at_s, rate in there.items())
    assert len(kept.forms) == 7


@pytest.mark.parametrize("wrong", ["NaN", "+Inf", "-1"])
def test_what_is_no_rate_is_a_gap(serve: Serve, wrong: str) -> None:
    last_s = 1_000_000 * 300.0
    kept = Kept({last_s - 300.0: wrong, last_s: 2.5})
    assert history(settings(serve(kept.answer), period_s=600.0)) == (PastRate(last_s, 300.0, 2.5),)


def test_no_past_is_unknown_not_idle(serve: Serve) -> None:
    found = history(settings(serve(Kept({}).answer), period_s=600.0))
    assert isinstance(found, Unknown)
    assert found.reason is UnknownReason.NO_OBSERVATIONS


def test_a_prometheus_that_is_away_is_unknown() -> None:
    found = history(settings("http://127.0.0.1:1"))
    assert isinstance(found, Unknown)
    assert found.reason is UnknownReason.UNREACHABLE


def test_the_expression_counts_every_engine_once() -> None:
    asked = PrometheusSettings(url="http://p", matchers={"cluster": "a"}, history=HistorySettings(step_s=60.0))
    series = '{__name__="vllm:time_to_first_token_seconds_count",namespace="llm",pod=~"chat-.*",cluster="a"}[60000ms]'
    assert arrivals(asked, PAST) == (
        "sum(max without (tp_rank,prometheus_replica,job,endpoint,service,container,prometheus) "
        f"(rate({series}) and count_over_time({series}) >= 4))"
    )


@dataclass
class Remembered(NoJournal):
    """A journal with one service in it."""

    state: ControllerState | None

    def restore(self) -> ControllerState | None:
        return self.state


def seeded(
    url: str, state: ControllerState | None, *, params: Params | None = None, **history: float
) -> ControllerState | None:
    chat = service()
    return SeededJournal(
        Remembered(state),
        settings(url, **history),
        services=lambda: [(chat, past_of_models(chat, ["org/m.1"]))],
        params=lambda: params or Params(),
        models=build_models(),
        now_s=lambda: NOW_S,
    ).restore()


def test_a_forecast_begins_with_the_past(serve: Serve) -> None:
    last_s = 1_000_000 * 300.0
    kept = Kept({last_s - number * 300.0: 7.0 for number in range(12)})
    state = seeded(serve(kept.answer), None, period_s=3600.0)
    assert state is not None
    models = build_models()
    begun = state.services[CHAT]
    unknown = fresh(service(), models, Params())
    foreseen, without = models.forecaster.forecast_all(
        [begun.forecaster, unknown.forecaster], [Question(now_s=NOW_S, lead_s=60.0, quantile=0.9)] * 2
    )
    assert not isinstance(foreseen, Unknown)
    assert foreseen.median_rps == pytest.approx(7.0, rel=0.2)
    assert isinstance(without, Unknown)
    assert 'model_name=~"org/m\\\\.1"' in kept.forms[0]["query"]


def known(chat: Service) -> ControllerState:
    return ControllerState(services={chat.id: fresh(chat, build_models(), Params())})


@pytest.mark.parametrize(
    ("params", "history"),
    [
        pytest.param(Params(), {"period_s": 600.0}, id="known already"),
        pytest.param(Params(forecasting=False), {"period_s": 600.0}, id="no forecasts"),
        pytest.param(Params(), {"period_s": 0.0}, id="none wanted"),
    ],
)
def test_who_needs_no_past_asks_for_none(serve: Serve, params: Params, history: dict[str, float]) -> None:
    kept = Kept({})
    state = known(service())
    assert seeded(serve(kept.answer), state, params=params, **history) == state
    assert kept.forms == []


def test_without_a_past_it_begins_as_ever() -> None:
    assert seeded("http://127.0.0.1:1", None) is None


def test_gaps_are_learned_as_unknown_time() -> None:
    models, chat = build_models(), service()
    steps = [PastRate(300.0 * number, 300.0, 5.0) for number in range(1, 20)]
    whole, holed = taught(models, [(chat, steps), (chat, [*steps[:5], *steps[12:]])])
    question = Question(now_s=300.0 * 19, lead_s=30.0, quantile=0.5)
    for foreseen in models.forecaster.forecast_all([whole, holed], [question] * 2):
        assert not isinstance(foreseen, Unknown)
        assert foreseen.median_rps == pytest.approx(5.0, rel=0.1)
