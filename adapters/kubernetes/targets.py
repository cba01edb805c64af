"""The objects that resources name as their targets, and whose count is really to be written for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from adapters.kubernetes.connection import KubernetesApi
from adapters.kubernetes.contents import ObjectKey
from adapters.kubernetes.custom_kinds import CustomKinds, CustomObject
from adapters.kubernetes.following import Following, item_of
from adapters.kubernetes.scalable import Scalable, TargetKind
from adapters.kubernetes.target_kinds import TARGET_KINDS
from adapters.kubernetes.target_view import TargetView
from autoscaler.domain.resource import TargetRef
from autoscaler.ports import InvalidAnswerError, PortError, RefusedError, UnavailableError

_MOST_OWNERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetProblem:
    """A target that can't be read now, and why. ``lasting``: a person has to change something.

    ``last``: what was last known of it.
    """

    namespace: str
    ref: TargetRef
    detail: str
    lasting: bool
    last: TargetView | None = None


TargetKey = tuple[str, TargetRef]  # namespace and what was named
Targeted = Mapping[TargetKey, TargetView | TargetProblem]


class Targets:
    """Views of targets from watched collections; the kinds that are named get a watch each.

    ``refresh`` belongs to one thread; ``latest`` may be read by any. What is written is compared with ``latest``, so
    that a decision is never carried out on other numbers than those it was made on.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        now_s: Callable[[], float],
        namespace: str | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """``namespace``: the only one that is looked at, None for all. ``changed``: called after each change, in the
        thread of a watch.
        """
        self._known: Following[Scalable] = Following(api, now_s=now_s, namespace=namespace, changed=changed)
        self._custom: Following[CustomObject] = Following(api, now_s=now_s, namespace=namespace, changed=changed)
        self._custom_kinds = CustomKinds(api, self._custom, now_s=now_s)
        self._latest: Targeted = MappingProxyType({})

    def refresh(self, wanted: Iterable[TargetKey]) -> Targeted:
        """The targets as they are now. One that can't be read is a TargetProblem and holds no other."""
        self._custom_kinds.begin()
        before, views = self._latest, {}
        for key in wanted:
            views[key] = self._view_or_problem(key, before.get(key))
        self._latest = MappingProxyType(views)
        return self._latest

    def latest(self) -> Targeted:
        """As the last ``refresh`` gave them."""
        return self._latest

    @property
    def heard_s(self) -> float | None:
        """When the most silent of the watches was last heard: until then the views are right. None: one never was."""
        heard = [*self._known.heard_s(), *self._custom.heard_s()]
        known = [each for each in heard if each is not None]
        return min(known) if heard and len(known) == len(heard) else None

    def close(self) -> None:
        """End the watches."""
        self._known.close()
        self._custom.close()

    def _view_or_problem(self, key: TargetKey, before: TargetView | TargetProblem | None) -> TargetView | TargetProblem:
        namespace, ref = key
        last = before.last if isinstance(before, TargetProblem) else before
        try:
            return _keeping(self._resolve(namespace, ref), last)
        except PortError as error:
            return TargetProblem(
                namespace=namespace,
                ref=ref,
                detail=str(error),
                lasting=isinstance(error, RefusedError | InvalidAnswerError),
                last=last,
            )

    def _resolve(self, namespace: str, ref: TargetRef) -> TargetView:
        named = self._find(namespace, ref)
        if named.runs is not None:
            return self._run_by(namespace, ref, named, named.runs)
        view = named.views.get(ref.worker_group or "")
        if view is None:
            raise RefusedError(_no_group(ref, named))
        return replace(self._climb(namespace, named, view, owners=0), ref=ref)

    def _run_by(self, namespace: str, ref: TargetRef, named: Scalable, runs: TargetRef) -> TargetView:
        """An object that leaves its count to one that it has made."""
        try:
            made = self._find(namespace, runs)
        except RefusedError as error:
            raise RefusedError(named.refusal or f"{ref} is scaled by {runs}: {error}") from error
        if made.controller is None or made.controller.identity != named.ref.identity:
            raise RefusedError(f"{runs} is not made by {ref}")
        return replace(made.views[""], ref=ref, refusal=named.refusal)

    def _climb(self, namespace: str, named: Scalable, view: TargetView, *, owners: int) -> TargetView:
        """An object that another one makes: that one would set its count back, so the highest of them is scaled."""
        if named.controller is None:
            return view
        if owners == _MOST_OWNERS:
            raise RefusedError(f"{named.ref} has more than {_MOST_OWNERS} owners above one another")
        try:
            owner = self._find(namespace, named.controller)
        except UnavailableError:
            raise
        except PortError as error:
            raise RefusedError(
                f"{named.ref} is made by {named.controller}, which would set its count back and can't be scaled "
                f"itself: {error}"
            ) from error
        if owner.leaves_count:
            # It may make several such objects; a target by its own name means the one that it runs.
            same = (owner.ref,) if owner.runs is not None and owner.runs.identity == named.ref.identity else ()
            return replace(view, between=(*view.between, *same), refusal=owner.refusal)
        above = owner.views.get(view.ref.worker_group or "")
        if above is None:
            raise RefusedError(f"{named.ref} is made by {owner.ref}; name that one as the target")
        top = self._climb(namespace, owner, above, owners=owners + 1)
        return replace(
            top,
            between=(*top.between, above.ref),
            selector=top.selector or view.selector,
            groups=view.groups if top.groups is None else top.groups,
            rollout=top.rollout or view.rollout,
            honours_deletion_cost=view.honours_deletion_cost,
        )

    def _find(self, namespace: str, ref: TargetRef) -> Scalable:
        """One object of any kind. Raises PortError."""
        kind = _KINDS.get((ref.group, ref.kind))
        if kind is None:
            return self._custom_kinds.find(namespace, ref)
        watched = self._known.of(kind.collection, partial(kind.read, kind))
        return item_of(watched, ObjectKey(namespace, ref.name), kind=kind.kind)


_KINDS: Mapping[tuple[str, str], TargetKind] = {(kind.group, kind.kind): kind for kind in TARGET_KINDS}


def _keeping(view: TargetView, last: TargetView | None) -> TargetView:
    """The view with the parts of the last one that are as they were, so that others see at once what has changed."""
    if last is None or view == last:
        return last or view
    return replace(
        view,
        selector=last.selector if view.selector == last.selector else view.selector,
        leader=last.leader if view.leader == last.leader else view.leader,
        groups=last.groups if view.groups == last.groups else view.groups,
    )


def _no_group(ref: TargetRef, named: Scalable) -> str:
    groups = ", ".join(name for name in named.views if name)
    if not groups:
        return f"{ref.kind} {ref.name} has no worker group {ref.worker_group or ''}".rstrip()
    if ref.worker_group is None:
        return f"{ref} needs workerGroup, one of: {groups}"
    return f"{ref.kind} {ref.name} has no worker group {ref.worker_group}; it has: {groups}"
