"""Each state that a replica can be in, from a page or the reason for none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.domain.judgement import Judgement, judged
from autoscaler.domain.reading import EngineReading, Unknown, UnknownReason
from tests.policy.world import Engine


def page(**changes: object) -> EngineReading:
    reading = Engine(started_s=0.0, completed=7.0, first_tokens=9.0, running=2.0).reading("r", 100.0)
    assert isinstance(reading, EngineReading)
    return replace(reading, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("counted", "stuck", "failing_probe", "expected"),
    [
        pytest.param(page(), False, None, Judgement.OK, id="nothing wrong"),
        pytest.param(page(), True, None, Judgement.STUCK, id="no progress"),
        pytest.param(page(asleep=True), False, None, Judgement.ASLEEP, id="sleep mode"),
        pytest.param(page(), False, "readiness: 503", Judgement.OVERLOADED, id="unready with work"),
        pytest.param(page(running=0.0), False, "readiness: 503", Judgement.OK, id="unready and idle is no overload"),
        pytest.param(page(), True, "readiness: 503", Judgement.STUCK, id="stuck before overloaded"),
        pytest.param(
            page(kv_fraction=Unknown(UnknownReason.OUT_OF_RANGE)), False, None, Judgement.CONTRADICTING, id="KV above 1"
        ),
        pytest.param(
            page(kv_fraction=Unknown(UnknownReason.NOT_EXPORTED)), False, None, Judgement.OK, id="KV not exported"
        ),
        pytest.param(Unknown(UnknownReason.RESET), False, None, Judgement.RESET, id="a counter ran back"),
        pytest.param(Unknown(UnknownReason.STALE), False, None, Judgement.STALE, id="the same to the last digit"),
        pytest.param(Unknown(UnknownReason.WARMING_UP), False, None, Judgement.WARMING_UP, id="first page"),
        pytest.param(Unknown(UnknownReason.CONTRADICTION), False, None, Judgement.CONTRADICTING, id="contradiction"),
        pytest.param(Unknown(UnknownReason.NOT_A_NUMBER), False, None, Judgement.CONTRADICTING, id="NaN"),
        pytest.param(Unknown(UnknownReason.MISSING_SERIES), False, None, Judgement.INCOMPLETE, id="no arrivals"),
        pytest.param(Unknown(UnknownReason.TIMEOUT), False, None, Judgement.UNREADABLE, id="no answer"),
        pytest.param(Unknown(UnknownReason.HTTP_ERROR), False, None, Judgement.UNREADABLE, id="500"),
        pytest.param(Unknown(UnknownReason.EMPTY_PAGE), False, None, Judgement.UNREADABLE, id="empty page"),
    ],
)
def test_states(
    counted: EngineReading | Unknown, *, stuck: bool, failing_probe: str | None, expected: Judgement
) -> None:
    assert judged(counted, stuck=stuck, failing_probe=failing_probe)[0] is expected


@given(reason=st.sampled_from(UnknownReason), stuck=st.booleans(), probe=st.none() | st.text())
def test_what_was_not_counted_is_never_ok(reason: UnknownReason, *, stuck: bool, probe: str | None) -> None:
    judgement, detail = judged(Unknown(reason, "why"), stuck=stuck, failing_probe=probe)
    assert judgement is not Judgement.OK
    assert "why" in detail
