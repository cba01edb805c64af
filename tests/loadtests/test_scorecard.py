"""The scorecard against figures worked by hand."""

from __future__ import annotations

import dataclasses
import io

import pytest
from rich.console import Console

from autoscaler.codec import decode, encode
from autoscaler.domain.service import Slo
from loadtests.baselines import Baseline
from loadtests.records import LoadHead, LoadResult, Outcome, RequestRecord
from loadtests.scorecard import FleetFigures, Percentiles, Scorecard, ServiceFigures, score, service_figures
from loadtests.scorecard_view import scorecard_view

SLO = Slo(ttft_s=2.0, itl_s=0.1)
GOOD = RequestRecord(
    number=0,
    due_s=0.0,
    late_s=0.001,
    prompt_tokens=10,
    asked_tokens=5,
    output_tokens=5,
    outcome=Outcome.FINISHED,
    status=200,
    ttft_s=0.5,
    itl_s=0.05,
    e2e_s=0.7,
)
REFUSED = dataclasses.replace(GOOD, outcome=Outcome.REFUSED, status=503, ttft_s=None, itl_s=None, output_tokens=0)
BROKEN = dataclasses.replace(GOOD, outcome=Outcome.UNFINISHED, output_tokens=3)
STATIC = Baseline(name="static peak", how="computed", peak_replicas=4, replica_seconds=400.0, share_served=1.0)
FLEET = FleetFigures(replica_seconds=300.0, peak_replicas=4, changes=6)


def result(*records: RequestRecord, planned: int | None = None) -> LoadResult:
    head = LoadHead(
        url="http://127.0.0.1:1",
        label="made",
        started_s=0.0,
        duration_s=10.0,
        requests=len(records) if planned is None else planned,
        slo=SLO,
    )
    return LoadResult(head=head, records=records)


def scored(service: ServiceFigures, fleet: FleetFigures = FLEET) -> Scorecard:
    return score(service, fleet, static=STATIC, others=(), required_share=0.98)


@pytest.mark.parametrize(
    ("record", "within"),
    [
        pytest.param(GOOD, True, id="well within"),
        pytest.param(dataclasses.replace(GOOD, ttft_s=2.0, itl_s=0.1), True, id="on both thresholds"),
        pytest.param(dataclasses.replace(GOOD, ttft_s=2.001), False, id="first token late"),
        pytest.param(dataclasses.replace(GOOD, itl_s=0.101), False, id="tokens slow"),
        pytest.param(dataclasses.replace(GOOD, itl_s=None, output_tokens=1), True, id="one token has no gap"),
        pytest.param(REFUSED, False, id="refused"),
        pytest.param(BROKEN, False, id="broken off though fast"),
    ],
)
def test_request_within_slo(record: RequestRecord, *, within: bool) -> None:
    assert record.within(SLO) is within


def test_end_to_end_threshold_counts_too() -> None:
    assert GOOD.within(Slo(e2e_s=0.7))
    assert not GOOD.within(Slo(e2e_s=0.69))


def test_refused_unfinished_and_unrecorded_requests_are_missed() -> None:
    figures = service_figures(result(GOOD, GOOD, GOOD, REFUSED, BROKEN, planned=8))
    assert (figures.requests, figures.finished, figures.refused, figures.unfinished) == (8, 3, 1, 4)
    assert (figures.in_slo, figures.share_in_slo, figures.lost) == (3, 3 / 8, 5)
    assert figures.output_tokens == 3 * 5 + 3


def test_percentiles() -> None:
    """Of 0 ... 100 the percentiles are themselves; requests without a first token have none."""
    records = [dataclasses.replace(GOOD, ttft_s=float(value)) for value in range(101)]
    figures = service_figures(result(*records, REFUSED))
    assert figures.ttft_s == Percentiles(p50=50.0, p95=95.0, p99=99.0)
    assert Percentiles.of([]) == Percentiles(p50=None, p95=None, p99=None)


@pytest.mark.parametrize(
    ("records", "fleet", "failures"),
    [
        pytest.param([GOOD] * 10, FLEET, (), id="did its job"),
        pytest.param(
            [*[GOOD] * 97, *[dataclasses.replace(GOOD, ttft_s=3.0)] * 3],
            FLEET,
            ("97.00% of requests in SLO, 98% asked for",),
            id="too many late",
        ),
        pytest.param([*[GOOD] * 99, BROKEN], FLEET, ("1 requests without a whole answer",), id="one lost"),
        pytest.param(
            [GOOD],
            dataclasses.replace(FLEET, replica_seconds=400.0),
            ("400 replica-seconds, not fewer than the static peak's 400",),
            id="no saving",
        ),
        pytest.param([], FLEET, ("no request was sent",), id="nothing sent"),
    ],
)
def test_verdict(records: list[RequestRecord], fleet: FleetFigures, failures: tuple[str, ...]) -> None:
    assert scored(service_figures(result(*records)), fleet).failures == failures


def test_card_survives_json() -> None:
    card = scored(service_figures(result(GOOD, REFUSED)))
    assert decode(Scorecard, encode(card)) == card


def test_card_on_a_terminal() -> None:
    out = io.StringIO()
    Console(file=out, width=120).print(scorecard_view(scored(service_figures(result(*[GOOD] * 3, REFUSED)))))
    text = out.getvalue()
    for part in (
        "75.00%",
        "500 ms / 500 ms / 500 ms",
        "50 ms / 50 ms / 50 ms",
        "1 / 0",
        "this run (6 changes)",
        "-25%",
    ):
        assert part in text
    assert "1 requests without a whole answer" in text
