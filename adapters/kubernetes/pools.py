"""Which nodes may carry which pods: the scheduler's hard rules, and nodes grouped by them.

Rules: Kubernetes docs, "Assigning Pods to Nodes" (nodeSelector, required node affinity) and "Taints and Tolerations";
k8s.io/component-helpers, scheduling/corev1 (Toleration.ToleratesTaint). Rules between pods (anti-affinity, topology
spread) are the scheduler's alone: a replica that they keep waiting shows as unschedulable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from adapters.kubernetes.label_matching import NodeTerm
from adapters.kubernetes.nodes import NodeView, Taint
from adapters.kubernetes.target_view import PodNeeds, Toleration

_HARD_EFFECTS = frozenset(("NoSchedule", "NoExecute"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What a pod demands of its node, and which taints it endures. ``terms``: alternatives; empty for none."""

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[NodeTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMap:
    """Nodes by pool: ``pool`` names that of each node, ``admitted`` the placements that all nodes of a pool admit."""

    pool: Mapping[str, str]
    admitted: Mapping[str, frozenset[Placement]]

    def carrying(self, placements: Iterable[Placement]) -> tuple[str, ...]:
        """The pools whose nodes admit all of these, sorted."""
        wanted = frozenset(placements)
        return tuple(sorted(pool for pool, admitted in self.admitted.items() if wanted <= admitted))


def placement_of(needs: PodNeeds) -> Placement:
    """Of the pods of a template."""
    return Placement(
        selector=tuple(sorted(needs.node_selector.items())), terms=needs.node_terms, tolerations=needs.tolerations
    )


def admits(node: NodeView, placement: Placement) -> bool:
    """Whether the scheduler may put such a pod there, as far as labels and taints go."""
    if any(node.labels.get(key) != value for key, value in placement.selector):
        return False
    if placement.terms and not any(term.matches(name=node.name, labels=node.labels) for term in placement.terms):
        return False
    return all(
        any(_tolerates(toleration, taint) for toleration in placement.tolerations)
        for taint in node.taints
        if taint.effect in _HARD_EFFECTS
    )


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


class NodePools:
    """Groups nodes by the placements that they admit; what was found for a node is kept until it changes.

    A pool's name comes from those placements alone: it stays the same while they do, whatever nodes come and go, and
    is the same after a restart.
    """

    def __init__(self) -> None:
        self._placements: frozenset[Placement] = frozenset()
        self._keys: tuple[str, ...] = ()
        self._by_name = False
        self._by_traits: dict[tuple[object, ...], str] = {}
        self._by_node: dict[str, tuple[NodeView, str]] = {}
        self._admitted: dict[str, frozenset[Placement]] = {}

    def of(self, nodes: Iterable[NodeView], placements: Iterable[Placement]) -> PoolMap:
        """The pools of these nodes for these placements."""
        wanted = frozenset(placements)
        if wanted != self._placements:
            self._start_over(wanted)
        found: dict[str, tuple[NodeView, str]] = {}
        for node in nodes:
            known = self._by_node.get(node.name)
            found[node.name] = known if known is not None and known[0] is node else (node, self._pool(node))
        self._by_node = found
        used = {pool for _, pool in found.values()}
        return PoolMap(
            pool={name: pool for name, (_, pool) in found.items()},
            admitted={pool: self._admitted[pool] for pool in sorted(used)},
        )

    def _start_over(self, placements: frozenset[Placement]) -> None:
        self._placements = placements
        keys = {key for each in placements for key, _ in each.selector}
        terms = [term for each in placements for term in each.terms]
        keys.update(requirement.key for term in terms for requirement in term.labels)
        self._keys = tuple(sorted(keys))
        self._by_name = any(term.fields for term in terms)
        self._by_traits, self._by_node, self._admitted = {}, {}, {}

    def _pool(self, node: NodeView) -> str:
        """Nodes that agree in all that any placement asks for are looked at once."""
        labels = node.labels
        traits = (node.name if self._by_name else "", node.taints, *map(labels.get, self._keys))
        pool = self._by_traits.get(traits)
        if pool is None:
            admitted = frozenset(each for each in self._placements if admits(node, each))
            pool = self._by_traits[traits] = _name(admitted)
            self._admitted[pool] = admitted
        return pool


def _name(admitted: frozenset[Placement]) -> str:
    if not admitted:
        return "no-target"
    digest = blake2b(digest_size=4)
    for written in sorted(map(repr, admitted)):
        digest.update(written.encode())
        digest.update(b"\n")
    return f"pool-{digest.hexdigest()}"
