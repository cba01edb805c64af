"""What we wrote into a target's count and what became of it: who changed it after us, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from adapters.kubernetes.connection import FIELD_MANAGER
from adapters.kubernetes.contents import is_older
from adapters.kubernetes.target_view import TargetView

_ANSWERED_WITHIN_S = 600.0  # a change so soon after ours is an answer to it
_REMEMBERED_S = 3600.0  # and is remembered so long: after that a person has had time to end the quarrel
_FIGHT = 2

# Tools that apply manifests again and again (their field managers; the docs of Argo CD and Flux name them).
GITOPS_MANAGERS = ("argocd-controller", "kustomize-controller", "helm-controller")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignChange:
    """A count that somebody else has set. ``answers_us``: soon after we had written another one."""

    manager: str
    at_s: float
    before: int
    after: int
    answers_us: bool

    @property
    def switches(self) -> bool:
        """Off or on again: a wish about the service, not another opinion of its size."""
        return self.before == 0 or self.after == 0

    def __str__(self) -> str:
        return f"{self.manager} changed the count from {self.before} to {self.after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountHistory:
    """The count of one object, as far as one leadership has seen it.

    ``seen``: the count last seen or written. ``written``: what we asked for last, at ``written_s``, which made the
    version ``written_version`` of the object. ``changed``: what somebody else did last; ``answers``: those that
    answered us lately.
    """

    uid: str
    seen: int
    written: int | None = None
    written_s: float = 0.0
    written_version: str = ""
    changed: ForeignChange | None = None
    answers: tuple[ForeignChange, ...] = ()

    def wrote(self, replicas: int, *, version: str, at_s: float) -> CountHistory:
        """After a write of ours."""
        return replace(self, seen=replicas, written=replicas, written_s=at_s, written_version=version)

    def observed(self, view: TargetView, *, now_s: float) -> tuple[CountHistory, ForeignChange | None]:
        """After a look at the object, with the change that somebody else has made since the last one."""
        if view.uid != self.uid:
            return begun(view), None
        answers = tuple(each for each in self.answers if now_s - each.at_s < _REMEMBERED_S)
        if view.replicas == self.seen or is_older(view.resource_version, self.written_version):
            return (self if answers == self.answers else replace(self, answers=answers)), None
        change = ForeignChange(
            manager=view.writers[0].manager if view.writers else "somebody",
            at_s=now_s,
            before=self.seen,
            after=view.replicas,
            answers_us=self.written is not None and now_s - self.written_s <= _ANSWERED_WITHIN_S,
        )
        if change.answers_us and not change.switches:
            answers = (*answers, change)
        return replace(self, seen=view.replicas, changed=change, answers=answers), change

    def opponent(self) -> ForeignChange | None:
        """The last answer of a manager that fights: a tool that applies manifests with its first, others with their
        second (a person may correct us once; the number is then taken as it is).
        """
        times = Counter(each.manager for each in self.answers)
        fighting = [
            each for each in self.answers if times[each.manager] >= (1 if each.manager in GITOPS_MANAGERS else _FIGHT)
        ]
        return fighting[-1] if fighting else None


def begun(view: TargetView) -> CountHistory:
    """The history of an object that is seen for the first time."""
    return CountHistory(uid=view.uid, seen=view.replicas)


class CountHistories:
    """Of all targets. For one thread."""

    def __init__(self) -> None:
        # The worker groups of one object have a count each.
        self._by_key: dict[tuple[str, tuple[str, str, str, str]], _Kept] = {}

    def look(self, views: Iterable[TargetView], *, now_s: float) -> list[tuple[TargetView, ForeignChange]]:
        """Take in how the targets are now, and give what others have changed.

        A target that can't be seen for a while is remembered; one that is gone is forgotten in the end.
        """
        changes = []
        for view in views:
            history, change = self.of(view).observed(view, now_s=now_s)
            self._by_key[_key(view)] = _Kept(history, now_s)
            if change is not None:
                changes.append((view, change))
        self._by_key = {key: kept for key, kept in self._by_key.items() if now_s - kept.seen_s < _REMEMBERED_S}
        return changes

    def of(self, view: TargetView) -> CountHistory:
        """What is known of the object's count."""
        kept = self._by_key.get(_key(view))
        return begun(view) if kept is None else kept.history

    def recall(self, view: TargetView, replicas: int, *, now_s: float) -> None:
        """What an earlier leadership asked for last, for an object that this one has not seen yet."""
        if _key(view) not in self._by_key:
            self._by_key[_key(view)] = _Kept(replace(begun(view), written=replicas), now_s)

    def wrote(self, view: TargetView, replicas: int, *, version: str, at_s: float) -> None:
        """After a write of ours."""
        history = self.of(view).wrote(replicas, version=version, at_s=at_s)
        self._by_key[_key(view)] = _Kept(history, at_s)


class _Kept(NamedTuple):
    history: CountHistory
    seen_s: float


def _key(view: TargetView) -> tuple[str, tuple[str, str, str, str]]:
    return view.uid, view.scaled.identity


def named_manager(manager: str) -> str:
    """A field manager as people know it."""
    if manager == FIELD_MANAGER:
        return "another installation of GPU Autoscaler"
    return manager
