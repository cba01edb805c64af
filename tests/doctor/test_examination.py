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
from tests.doctor.spoiling import bad, found, hpa_with, labelled, policy, quota, scaled_object_with
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


def spoilt() -> World:
    """A fault of each kind of object that may be joined by a strange one."""
    world = World(skew_s=9.0)
    hpa_with(lambda hpa: hpa["spec"].update(maxReplicas=2))(world)
    scaled_object_with(lambda made: made["spec"].update(fallback={"replicas": 7}))(world)
    labelled({"mig.config.state": "failed"})(world)
    world.quotas, world.budgets = quota("pods", hard="3", used="2"), []
    world.network_policies = [policy([])]
    return world


EXPECTED = {CheckId.CLOCK, CheckId.HPA, CheckId.SCALED_OBJECT, CheckId.MIG, CheckId.QUOTA, CheckId.NETWORK_POLICY}


@given(data=st.data(), which=st.sampled_from(["hpas", "scaled_objects", "nodes", "quotas", "network_policies"]))
@settings(max_examples=200, deadline=None)
def test_one_strange_object_never_hides_the_faults_of_others(data: st.DataObject, which: str) -> None:
    """Any part of an object but its name may be any JSON; it stands before the one whose fault is to be found."""
    world = spoilt()
    strange = here = copy.deepcopy(getattr(world, which)[0])
    keys = [key for key in sorted(strange) if key != "metadata"]
    while True:
        key = data.draw(st.sampled_from(keys))
        if not isinstance(here[key], dict) or not here[key] or data.draw(st.booleans()):
            here[key] = data.draw(JSON)
            break
        here = here[key]
        keys = sorted(here)
    getattr(world, which).insert(0, strange)
    told = bad(found(world))
    # A policy of any shape may let the controller in; then that is no fault any more.
    open_to_all = {CheckId.NETWORK_POLICY} if which == "network_policies" else set()
    assert {each.check for each in told} >= EXPECTED - open_to_all


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
