"""All checks together: none hides another, whatever the facts are."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.doctor.examination import CLUSTER_CHECKS, examine_cluster
from autoscaler.doctor.facts import ClockReading
from autoscaler.doctor.finding import CheckId, Severity
from autoscaler.ports import RefusedError, UnavailableError
from tests.doctor.spoiling import bad, found, hpa_with, nothing, policy, quota, scaled_object_with
from tests.doctor.world import World

ERROR = Severity.ERROR


LISTS = (
    *("resources", "hpas", "leases", "nodes", "pods", "quotas", "network_policies", "budgets", "rights"),
    *("definition", "version", "api_service"),
)


@pytest.mark.parametrize("unread", LISTS)
def test_what_can_not_be_read_is_a_finding_and_hides_no_other(unread: str) -> None:
    world = World(skew_s=9.0, marked={"shop/chat-1": RefusedError("admission webhook denied")})
    setattr(world, unread, RefusedError("403 forbidden for a reason"))
    findings = found(world)
    assert {each.check for each in findings} == {check.id for check in CLUSTER_CHECKS} | {CheckId.API_SERVER}
    assert any("403 forbidden for a reason" in each.message for each in bad(findings))
    assert {CheckId.CLOCK, CheckId.DELETION_COST} <= {each.check for each in bad(findings)}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=4), inside, max_size=3),
    max_leaves=6,
)


@given(data=st.data(), which=st.sampled_from(["hpas", "scaled_objects", "nodes", "quotas", "network_policies"]))
@settings(max_examples=150, deadline=None)
def test_one_strange_object_never_hides_the_faults_of_others(data: st.DataObject, which: str) -> None:
    """Any part of an object may be any JSON."""
    world = World(skew_s=9.0)
    hpa_with(nothing)(world)
    scaled_object_with(nothing)(world)
    world.quotas, world.network_policies = quota("pods", hard="9", used="2"), [policy([])]
    strange = copy.deepcopy(getattr(world, which)[0])
    here = strange
    while True:
        key = data.draw(st.sampled_from(sorted(here)))
        if not isinstance(here[key], dict) or not here[key] or data.draw(st.booleans()):
            here[key] = data.draw(JSON)
            break
        here = here[key]
    getattr(world, which).append(strange)
    findings = found(world)
    assert {check.id for check in CLUSTER_CHECKS} <= {each.check for each in findings}
    assert CheckId.CLOCK in {each.check for each in bad(findings)}


@given(before_s=st.floats(0, 2e9), took_s=st.floats(0, 20), ahead_s=st.floats(-100, 100), share=st.floats(0, 1))
def test_a_clock_is_never_said_to_be_further_off_than_it_is(
    before_s: float, took_s: float, ahead_s: float, share: float
) -> None:
    """The header has whole seconds, and came at any moment between the two looks."""
    told_s = float((before_s + took_s * share + ahead_s) // 1)
    reading = ClockReading(before_s=before_s, date_s=told_s, after_s=before_s + took_s)
    assert abs(reading.skew_s) <= abs(ahead_s) + 1e-5
    assert abs(reading.skew_s) >= abs(ahead_s) - took_s - 1.0 - 1e-5


def test_a_server_that_does_not_answer_is_all_that_is_told() -> None:
    def away() -> object:
        raise UnavailableError("connection refused")

    (told,) = examine_cluster(away)  # type: ignore[arg-type]
    assert (told.check, told.severity) == (CheckId.API_SERVER, ERROR)
