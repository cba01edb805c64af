"""Which nodes may carry which pods, against the scheduler's rules written out plainly."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.kubernetes.label_matching import NodeTerm, Operator, Requirement
from adapters.kubernetes.nodes import NodeView, Taint
from adapters.kubernetes.pod_templates import needs_of
from adapters.kubernetes.pools import NodePools, Placement, admits, placement_of
from adapters.kubernetes.raw_json import JsonObject
from adapters.kubernetes.target_view import Toleration

GPU_TAINT = Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule")


def placement(spec: JsonObject) -> Placement:
    """Of a pod's spec as it is written."""
    return placement_of(needs_of({"spec": spec}))


def affinity(*terms: JsonObject) -> JsonObject:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def expression(key: str, operator: str, *values: str) -> JsonObject:
    return {"key": key, "operator": operator, "values": list(values)}


NODE = NodeView(name="node-a", labels={"product": "H100", "memory": "80", "zone": "z1"})


@pytest.mark.parametrize(
    ("spec", "admitted"),
    [
        pytest.param({}, True, id="no demands"),
        pytest.param({"nodeSelector": {"product": "H100", "zone": "z1"}}, True, id="selector"),
        pytest.param({"nodeSelector": {"product": "H100", "zone": "z2"}}, False, id="selector, one label differs"),
        pytest.param(affinity({"matchExpressions": [expression("product", "In", "A100", "H100")]}), True, id="in"),
        pytest.param(affinity({"matchExpressions": [expression("product", "NotIn", "H100")]}), False, id="not in"),
        pytest.param(affinity({"matchExpressions": [expression("arch", "NotIn", "arm")]}), True, id="not in, missing"),
        pytest.param(affinity({"matchExpressions": [expression("zone", "Exists")]}), True, id="exists"),
        pytest.param(affinity({"matchExpressions": [expression("zone", "DoesNotExist")]}), False, id="does not exist"),
        pytest.param(affinity({"matchExpressions": [expression("memory", "Gt", "79")]}), True, id="greater"),
        pytest.param(affinity({"matchExpressions": [expression("memory", "Gt", "80")]}), False, id="not greater"),
        pytest.param(affinity({"matchExpressions": [expression("memory", "Lt", "81")]}), True, id="less"),
        pytest.param(affinity({"matchExpressions": [expression("product", "Lt", "81")]}), False, id="no number"),
        pytest.param(
            affinity(
                {"matchExpressions": [expression("zone", "In", "z2")]},
                {"matchExpressions": [expression("zone", "In", "z1")]},
            ),
            True,
            id="one of two terms",
        ),
        pytest.param(
            affinity({"matchFields": [expression("metadata.name", "In", "node-a")]}), True, id="this node by name"
        ),
        pytest.param(
            affinity({"matchFields": [expression("metadata.name", "In", "node-b")]}), False, id="another by name"
        ),
        pytest.param(affinity({}), False, id="an empty term"),
    ],
)
def test_labels(spec: JsonObject, *, admitted: bool) -> None:
    assert admits(NODE, placement(spec)) is admitted


@pytest.mark.parametrize(
    ("taint", "toleration", "admitted"),
    [
        pytest.param(GPU_TAINT, None, False, id="none"),
        pytest.param(GPU_TAINT, {"key": "nvidia.com/gpu", "operator": "Exists"}, True, id="exists"),
        pytest.param(GPU_TAINT, {"key": "nvidia.com/gpu", "value": "present"}, True, id="equal"),
        pytest.param(GPU_TAINT, {"key": "nvidia.com/gpu", "value": "other"}, False, id="another value"),
        pytest.param(GPU_TAINT, {"operator": "Exists"}, True, id="everything"),
        pytest.param(
            GPU_TAINT, {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, False, id="other effect"
        ),
        pytest.param(replace(GPU_TAINT, effect="NoExecute"), None, False, id="no execute"),
        pytest.param(replace(GPU_TAINT, effect="PreferNoSchedule"), None, True, id="soft"),
    ],
)
def test_taints(taint: Taint, toleration: JsonObject | None, *, admitted: bool) -> None:
    node = replace(NODE, taints=(taint,))
    assert admits(node, placement({} if toleration is None else {"tolerations": [toleration]})) is admitted


def test_a_pools_name_does_not_depend_on_which_nodes_there_are() -> None:
    placements = [placement({}), placement({"nodeSelector": {"zone": "z1"}})]
    nodes = [replace(NODE, name=f"node-{index}", labels={"zone": f"z{index % 2}"}) for index in range(6)]
    all_of_them, two = NodePools().of(nodes, placements), NodePools().of(nodes[:2], reversed(placements))
    assert {name: all_of_them.pool[name] for name in ("node-0", "node-1")} == two.pool
    assert len(set(all_of_them.pool.values())) == 2
    assert all(re.fullmatch(r"pool-[0-9a-f]{8}", name) for name in two.pool.values())


def test_a_node_changes_its_pool_with_its_labels() -> None:
    pools, wanted = NodePools(), placement({"nodeSelector": {"zone": "z1"}})
    before = pools.of([NODE], [wanted])
    assert before.carrying([wanted]) == (before.pool["node-a"],)
    after = pools.of([replace(NODE, labels={"zone": "z2"})], [wanted])
    assert after.carrying([wanted]) == ()


PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
KEYS, VALUES = st.sampled_from(["a", "b", "c"]), st.sampled_from(["1", "2", "x"])
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
REQUIREMENTS = st.one_of(
    st.builds(
        Requirement,
        key=KEYS,
        operator=st.sampled_from([Operator.IN, Operator.NOT_IN]),
        values=st.lists(VALUES, min_size=1, max_size=2).map(tuple),
    ),
    st.builds(Requirement, key=KEYS, operator=st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
    st.builds(
        Requirement,
        key=KEYS,
        operator=st.sampled_from([Operator.GT, Operator.LT]),
        values=st.sampled_from(["0", "1", "2"]).map(lambda value: (value,)),
    ),
)
FIELDS = st.builds(
    Requirement,
    key=st.just("metadata.name"),
    operator=st.sampled_from([Operator.IN, Operator.NOT_IN]),
    values=st.sampled_from(["node-0", "node-1"]).map(lambda value: (value,)),
)
PLACEMENTS = st.builds(
    Placement,
    selector=st.dictionaries(KEYS, VALUES, max_size=2).map(lambda labels: tuple(sorted(labels.items()))),
    terms=st.lists(
        st.builds(
            NodeTerm,
            labels=st.lists(REQUIREMENTS, max_size=2).map(tuple),
            fields=st.lists(FIELDS, max_size=1).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
    tolerations=st.lists(
        st.builds(
            Toleration,
            key=st.one_of(st.just(""), KEYS),
            operator=st.sampled_from(["Exists", "Equal", ""]),
            value=VALUES,
            effect=st.one_of(st.just(""), EFFECTS),
        ),
        max_size=2,
    ).map(tuple),
)
NODES = st.lists(
    st.tuples(
        st.dictionaries(KEYS, VALUES, max_size=3),
        st.lists(st.builds(Taint, key=KEYS, value=VALUES, effect=EFFECTS), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=5,
).map(
    lambda drawn: [
        NodeView(name=f"node-{index}", labels=labels, taints=taints) for index, (labels, taints) in enumerate(drawn)
    ]
)


def met(requirement: Requirement, labels: dict[str, str]) -> bool:
    """Kubernetes docs, "Labels and Selectors" and the operators of node affinity, one by one."""
    has, value = requirement.key in labels, labels.get(requirement.key, "")
    if requirement.operator == "In":
        return has and value in requirement.values
    if requirement.operator == "NotIn":
        return not has or value not in requirement.values
    if requirement.operator == "Exists":
        return has
    if requirement.operator == "DoesNotExist":
        return not has
    if not has or not value.isdecimal():
        return False
    bound = int(requirement.values[0])
    return int(value) > bound if requirement.operator == "Gt" else int(value) < bound


def plainly_admitted(node: NodeView, wanted: Placement) -> bool:
    """The scheduler's filters NodeAffinity and TaintToleration, rule by rule."""
    labels = dict(node.labels)
    for key, value in wanted.selector:
        if key not in labels or labels[key] != value:
            return False
    if wanted.terms:
        some = False
        for term in wanted.terms:
            conditions = [met(each, labels) for each in term.labels]
            conditions += [met(each, {"metadata.name": node.name}) for each in term.fields]
            some = some or (len(conditions) > 0 and False not in conditions)
        if not some:
            return False
    for taint in node.taints:
        if taint.effect == "PreferNoSchedule":
            continue
        endured = False
        for toleration in wanted.tolerations:
            same_effect = toleration.effect in ("", taint.effect)
            same_key = toleration.key in ("", taint.key)
            same_value = toleration.operator == "Exists" or toleration.value == taint.value
            endured = endured or (same_effect and same_key and same_value)
        if not endured:
            return False
    return True


@PATIENT
@given(nodes=NODES, placements=st.lists(PLACEMENTS, min_size=1, max_size=4))
def test_pools_hold_the_nodes_that_the_rules_allow(nodes: list[NodeView], placements: list[Placement]) -> None:
    found = NodePools().of(nodes, placements)
    for wanted in placements:
        carrying = found.carrying([wanted])
        assert {node.name for node in nodes if found.pool[node.name] in carrying} == {
            node.name for node in nodes if plainly_admitted(node, wanted)
        }


@PATIENT
@given(before=NODES, after=NODES, placements=st.lists(PLACEMENTS, min_size=1, max_size=3), others=st.lists(PLACEMENTS))
def test_what_is_kept_of_earlier_nodes_changes_nothing(
    before: list[NodeView], after: list[NodeView], placements: list[Placement], others: list[Placement]
) -> None:
    pools = NodePools()
    pools.of(before, placements)
    pools.of(before, others)
    pools.of(after, placements)
    assert pools.of(after, placements) == NodePools().of(after, placements)
