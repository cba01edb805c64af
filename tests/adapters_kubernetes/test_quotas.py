"""Quotas and limit ranges as the API server gives them, and how many replicas they leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from adapters.kubernetes.pod_templates import needs_of
from adapters.kubernetes.quota_limits import Most, most_replicas
from adapters.kubernetes.quotas import (
    LimitRangeView,
    QuotaView,
    Scoped,
    limit_range_view,
    priority_class_view,
    quota_view,
)
from adapters.kubernetes.raw_json import ShapeError
from adapters.kubernetes.target_view import PodNeeds

GPU = "nvidia.com/gpu"


def quota(
    hard: Mapping[str, str], used: Mapping[str, str] | None = None, *, spec: Mapping[str, object] | None = None
) -> QuotaView:
    return quota_view(
        {
            "metadata": {"name": "team", "namespace": "models"},
            "spec": {"hard": dict(hard), **(spec or {})},
            "status": {} if used is None else {"hard": dict(hard), "used": dict(used)},
        }
    )


def limit_range(*items: Mapping[str, object]) -> LimitRangeView:
    return limit_range_view({"metadata": {"name": "limits", "namespace": "models"}, "spec": {"limits": list(items)}})


def needs(*containers: Mapping[str, Mapping[str, str]]) -> PodNeeds:
    listed = [{"name": f"c{index}", "resources": each} for index, each in enumerate(containers)]
    return needs_of({"spec": {"containers": listed}})


ENGINE = needs({"requests": {"cpu": "4", "memory": "32Gi"}, "limits": {"memory": "64Gi", GPU: "1"}})


@pytest.mark.parametrize(
    ("hard", "devices"),
    [
        pytest.param({"requests.nvidia.com/gpu": "8"}, {GPU: 8}, id="gpus"),
        pytest.param({"requests.nvidia.com/mig-1g.10gb": "14", "pods": "3"}, {"nvidia.com/mig-1g.10gb": 14}, id="mig"),
        pytest.param({"requests.cpu": "4", "limits.memory": "1Ti", "count/pods": "2"}, {}, id="none"),
        pytest.param({"requests.nvidia.com/gpu": "8", "limits.nvidia.com/gpu": "4"}, {GPU: 4}, id="the lower"),
    ],
)
def test_limits_on_devices(hard: Mapping[str, str], devices: Mapping[str, int]) -> None:
    assert quota(hard).devices == devices


def class_scope(operator: str, *values: str) -> Mapping[str, object]:
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": list(values)}
    return {"scopeSelector": {"matchExpressions": [expression]}}


@pytest.mark.parametrize(
    ("spec", "pod", "counted"),
    [
        pytest.param({}, Scoped(), True, id="no scope"),
        pytest.param({"scopes": ["BestEffort"]}, Scoped(best_effort=True), True, id="best effort"),
        pytest.param({"scopes": ["NotBestEffort"]}, Scoped(best_effort=True), False, id="not best effort"),
        pytest.param({"scopes": ["Terminating"]}, Scoped(has_deadline=True), True, id="with a deadline"),
        pytest.param({"scopes": ["NotTerminating"]}, Scoped(), True, id="without a deadline"),
        pytest.param({"scopes": ["NotTerminating", "BestEffort"]}, Scoped(), False, id="one of two"),
        pytest.param(class_scope("In", "high", "low"), Scoped(priority_class="low"), True, id="class in"),
        pytest.param(class_scope("In", "high"), Scoped(), False, id="no class"),
        pytest.param(class_scope("NotIn", "high"), Scoped(priority_class="low"), True, id="class not in"),
        pytest.param(class_scope("Exists"), Scoped(priority_class="low"), True, id="any class"),
        pytest.param(class_scope("DoesNotExist"), Scoped(priority_class="low"), False, id="none wanted"),
        pytest.param({"scopes": ["CrossNamespacePodAffinity"]}, Scoped(), False, id="another scope"),
    ],
)
def test_scopes(spec: Mapping[str, object], pod: Scoped, *, counted: bool) -> None:
    assert quota({"pods": "1"}, spec=spec).counts(pod) is counted


LEFT = [
    pytest.param({"pods": "10"}, {"pods": "7"}, 5, id="pods"),
    pytest.param({"count/pods": "10"}, {"count/pods": "10"}, 2, id="none left"),
    pytest.param({"requests.cpu": "20"}, {"requests.cpu": "9500m"}, 4, id="cpu"),
    pytest.param({"cpu": "20"}, {"cpu": "12"}, 4, id="cpu by its short name"),
    pytest.param({"limits.memory": "256Gi"}, {"limits.memory": "128Gi"}, 4, id="memory"),
    pytest.param({"pods": "4"}, {"pods": "6"}, 2, id="lowered below what is used"),
    pytest.param({"pods": "10", "limits.memory": "200Gi"}, {"pods": "2", "limits.memory": "128Gi"}, 3, id="the lowest"),
]


@pytest.mark.parametrize(("hard", "used", "most"), LEFT)
def test_replicas_that_a_quota_leaves(hard: Mapping[str, str], used: Mapping[str, str], most: int) -> None:
    found = most_replicas([(ENGINE, 1)], existing=2, quotas=[quota(hard, used)], limit_ranges=[])
    assert found is not None
    assert found.replicas == most
    assert found.detail.startswith("quota team on ")


def test_a_replica_of_several_pods_needs_room_for_all() -> None:
    view = quota({"pods": "10"}, {"pods": "1"})
    found = most_replicas([(ENGINE, 3), (needs({}), 1)], existing=0, quotas=[view], limit_ranges=[])
    assert found == Most(replicas=2, detail="quota team on pods leaves 9, a replica needs 4")


@pytest.mark.parametrize(
    "views",
    [
        pytest.param([], id="no quota"),
        pytest.param([quota({"requests.nvidia.com/gpu": "1"}, {})], id="devices alone"),
        pytest.param([quota({"count/deployments.apps": "1"}, {"count/deployments.apps": "1"})], id="other objects"),
        pytest.param([quota({"pods": "1"})], id="not counted yet"),
    ],
)
def test_quotas_that_limit_nothing_here(views: Sequence[QuotaView]) -> None:
    assert most_replicas([(ENGINE, 1)], existing=1, quotas=views, limit_ranges=[]) is None


def test_what_a_quota_limits_must_be_given() -> None:
    views = [quota({"limits.cpu": "100"}, {"limits.cpu": "1"})]
    found = most_replicas([(ENGINE, 1)], existing=2, quotas=views, limit_ranges=[])
    assert found is not None
    assert found.replicas == 2
    assert "limits.cpu" in found.detail
    defaults = [limit_range({"type": "Container", "default": {"cpu": "33"}})]
    given = most_replicas([(ENGINE, 1)], existing=2, quotas=views, limit_ranges=defaults)
    assert given is not None
    assert given.replicas == 2 + 3


@pytest.mark.parametrize(
    ("item", "refused"),
    [
        pytest.param({"type": "Container", "max": {GPU: "1"}}, False, id="as many"),
        pytest.param({"type": "Container", "max": {GPU: "0"}}, True, id="fewer devices"),
        pytest.param({"type": "Container", "max": {"memory": "64Gi"}}, False, id="each container within"),
        pytest.param({"type": "Container", "max": {"memory": "63Gi"}}, True, id="a container beyond"),
        pytest.param({"type": "Pod", "max": {"memory": "64Gi"}}, True, id="together beyond"),
        pytest.param({"type": "PersistentVolumeClaim", "max": {"memory": "1"}}, False, id="of something else"),
    ],
)
def test_pods_that_a_limit_range_makes_impossible(item: Mapping[str, object], *, refused: bool) -> None:
    template = needs({"limits": {"memory": "64Gi", GPU: "1"}}, {"limits": {"memory": "1Gi"}})
    found = most_replicas([(template, 1)], existing=1, quotas=[], limit_ranges=[limit_range(item)])
    if not refused:
        assert found is None
    else:
        assert found is not None
        assert (found.replicas, found.detail.split(" allows ")[0]) == (1, "limit range limits")


def test_priority_classes() -> None:
    low = priority_class_view({"metadata": {"name": "low"}, "value": -5, "preemptionPolicy": "Never"})
    assert (low.value, low.preempts, low.default) == (-5, False, False)
    top = priority_class_view({"metadata": {"name": "top"}, "value": 1000, "globalDefault": True})
    assert (top.value, top.preempts, top.default) == (1000, True, True)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"hard": {"pods": "some"}}, id="amount"),
        pytest.param({"hard": {"pods": 3}}, id="not as text"),
        pytest.param(
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Like"}]}}, id="operator"
        ),
    ],
)
def test_bad_quotas_are_told(spec: Mapping[str, object]) -> None:
    with pytest.raises(ShapeError):
        quota_view({"metadata": {"name": "team", "namespace": "models"}, "spec": spec})
