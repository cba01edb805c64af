"""Which target each pod belongs to, by the targets' selectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from adapters.kubernetes.contents import ObjectKey
from adapters.kubernetes.label_matching import LabelSelector, Operator
from adapters.kubernetes.pods import PodView

NOBODY = -1


class Scope(NamedTuple):
    """Where a target's pods are; no selector: nobody knows."""

    namespace: str
    selector: LabelSelector | None


class Assigned(NamedTuple):
    """``pods``: by target, in the order of the scopes. ``holders``: pods with devices, and whether each is a
    target's.
    """

    pods: Sequence[Sequence[PodView]]
    holders: Sequence[tuple[PodView, bool]]


class Assignment:
    """Assigns pods; each is looked at again only when it or the scopes changed.

    A pod that several targets select goes to the first of them, so that nothing is counted twice.
    """

    def __init__(self) -> None:
        self._scopes: tuple[Scope, ...] = ()
        self._pods: Mapping[ObjectKey, PodView] | None = None
        self._known: dict[ObjectKey, tuple[PodView, int]] = {}
        self._assigned = Assigned((), ())
        # A selector is looked up by one label and value that it demands; the few that demand none are all tried.
        self._keys: dict[str, list[str]] = {}
        self._by_label: dict[tuple[str, str, str], list[int]] = {}
        self._others: dict[str, list[int]] = {}

    def of(self, pods: Mapping[ObjectKey, PodView], scopes: Sequence[Scope]) -> Assigned:
        """All pods, by target."""
        scopes = tuple(scopes)
        if scopes != self._scopes:
            self._start_over(scopes)
        elif pods is self._pods:
            return self._assigned
        groups: list[list[PodView]] = [[] for _ in scopes]
        holders: list[tuple[PodView, bool]] = []
        known: dict[ObjectKey, tuple[PodView, int]] = {}
        for key, pod in pods.items():
            before = self._known.get(key)
            found = before if before is not None and before[0] is pod else (pod, self._find(pod))
            known[key] = found
            owner = found[1]
            if owner != NOBODY:
                groups[owner].append(pod)
            if pod.devices:
                holders.append((pod, owner != NOBODY))
        self._pods, self._known = pods, known
        self._assigned = Assigned(groups, holders)
        return self._assigned

    def _start_over(self, scopes: tuple[Scope, ...]) -> None:
        self._scopes, self._known = scopes, {}
        self._keys, self._by_label, self._others = {}, {}, {}
        for index, scope in enumerate(scopes):
            if scope.selector is None:
                continue
            anchor = _anchor(scope.selector)
            if anchor is None:
                self._others.setdefault(scope.namespace, []).append(index)
                continue
            keys = self._keys.setdefault(scope.namespace, [])
            if anchor[0] not in keys:
                keys.append(anchor[0])
            self._by_label.setdefault((scope.namespace, *anchor), []).append(index)

    def _find(self, pod: PodView) -> int:
        candidates = list(self._others.get(pod.namespace, ()))
        for key in self._keys.get(pod.namespace, ()):
            if (value := pod.labels.get(key)) is not None:
                candidates += self._by_label.get((pod.namespace, key, value), ())
        return min((index for index in candidates if self._selects(index, pod)), default=NOBODY)

    def _selects(self, index: int, pod: PodView) -> bool:
        selector = self._scopes[index].selector
        return selector is not None and selector.matches(pod.labels)


def _anchor(selector: LabelSelector) -> tuple[str, str] | None:
    """A label with its value that whatever it selects must have."""
    for each in selector.requirements:
        if each.operator is Operator.IN and len(each.values) == 1:
            return each.key, each.values[0]
    return None
