"""Writing counts: to services in Mode.SCALE alone, one change at a time, never over somebody else's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic
from typing import Protocol

from adapters.kubernetes.connection import KubernetesApi, PatchKind
from adapters.kubernetes.count_history import CountHistories
from adapters.kubernetes.deletion_cost import COST_ANNOTATION, Candidate, marks
from adapters.kubernetes.scale_calls import ScaleCalls, check_leads
from adapters.kubernetes.target_view import TargetView
from adapters.kubernetes.targets import Targeted, TargetProblem
from autoscaler.domain.plan import VariantTarget
from autoscaler.domain.resource import AutoscalerResource, Mode
from autoscaler.domain.service import ServiceId
from autoscaler.ports import PortError, RefusedError, UnavailableError

_MARKING_S = 5.0


class NoticeKind(StrEnum):
    """What happened to a target."""

    SCALED = "Scaled"
    SHRINK_HELD = "ShrinkHeld"
    NOT_MARKED = "PodsNotMarked"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleNotice:
    """One of them, for events and logs. ``before``/``after``: the counts (of what was wanted, where it was held)."""

    kind: NoticeKind
    resource: AutoscalerResource
    variant: str
    view: TargetView
    before: int
    after: int
    detail: str = ""


class Surroundings(Protocol):
    """What the actuator is told of the cluster, all of it from memory."""

    def resource(self, service: ServiceId) -> AutoscalerResource | None:
        """The resource that asks for this service, None where it is gone."""
        ...

    def targeted(self) -> Targeted:
        """The targets as they were when the decision was made."""
        ...

    def candidates(self, view: TargetView) -> Sequence[Candidate]:
        """The target's pods that do not end yet, with what each has in flight."""
        ...


@dataclass(frozen=True, slots=True)
class _Step:
    resource: AutoscalerResource
    variant: str
    view: TargetView
    replicas: int

    @property
    def grows(self) -> bool:
        return self.replicas > self.view.replicas


class KubernetesActuator:
    """ReplicaActuator of a cluster. ``notify`` is told of what was done, at once; it must not raise.

    ``leads`` is asked before each call that changes something, so that a replica of the controller which lost its
    lease (or stood still for longer) changes nothing any more. A service in Mode.ADVISE never gets as far as a call:
    the steps are made for Mode.SCALE alone.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        surroundings: Surroundings,
        histories: CountHistories,
        now_s: Callable[[], float],
        leads: Callable[[], bool] = lambda: True,
        notify: Callable[[ScaleNotice], None] = lambda notice: None,
    ) -> None:
        self._api = api
        self._leads = leads
        self._calls = ScaleCalls(api, leads=leads)
        self._surroundings = surroundings
        self._histories = histories
        self._now_s = now_s
        self._notify = notify

    def scale(self, service: ServiceId, targets: Sequence[VariantTarget]) -> None:
        """Write the counts that differ: those that grow first, and if all of them went well those that shrink.

        Raises ConflictError (changed since the decision; the next tick sees it), RefusedError, UnavailableError.
        """
        steps = self._steps(service, targets)
        error = self._take([step for step in steps if step.grows])
        if error is not None:
            # Capacity that was to take over did not come: what is there stays.
            raise error
        error = self._take([step for step in steps if not step.grows])
        if error is not None:
            raise error

    def _steps(self, service: ServiceId, targets: Sequence[VariantTarget]) -> list[_Step]:
        resource = self._surroundings.resource(service)
        if resource is None:
            raise RefusedError(f"there is no InferenceAutoscaler {service} any more")
        if resource.mode is not Mode.SCALE:
            return []
        targeted = self._surroundings.targeted()
        steps = []
        for target in targets:
            view = targeted.get((resource.namespace, resource.target(target.variant)))
            if view is None:
                raise UnavailableError(f"the target of variant {target.variant} is not known yet")
            if isinstance(view, TargetProblem):
                raise (RefusedError if view.lasting else UnavailableError)(view.detail)
            if view.refusal is not None:
                raise RefusedError(view.refusal)
            if target.replicas != view.replicas:
                steps.append(_Step(resource, target.variant, view, target.replicas))
        return steps

    def _take(self, steps: Sequence[_Step]) -> PortError | None:
        """Try each; the first error."""
        first = None
        for step in steps:
            held = None if step.grows else shrink_held(step.view)
            if held is not None:
                self._tell(NoticeKind.SHRINK_HELD, step, held)
                continue
            try:
                self._write(step)
            except PortError as error:
                first = first or error
        return first

    def _write(self, step: _Step) -> None:
        if not step.grows and step.view.honours_deletion_cost:
            self._mark(step)
        written = self._calls.write(step.view, step.replicas)
        if written is None:
            return
        self._histories.wrote(step.view, written.replicas, version=written.version, at_s=self._now_s())
        if written.replicas != step.replicas:
            raise RefusedError(
                f"{step.view.scaled}: an admission policy made {written.replicas} of the {step.replicas} replicas "
                "that were asked for"
            )
        self._tell(NoticeKind.SCALED, step)

    def _mark(self, step: _Step) -> None:
        """Say which pods should go. A wish: where it can't be said the count changes all the same."""
        candidates = {each.name: each for each in self._surroundings.candidates(step.view)}
        count = len(candidates) - step.replicas
        ends_s = monotonic() + _MARKING_S
        try:
            for name, cost in marks(tuple(candidates.values()), count=count).items():
                left_s = ends_s - monotonic()
                if left_s <= 0:
                    raise UnavailableError(f"marking the pods that go took longer than {_MARKING_S:g} s")
                written = None if cost is None else str(cost)
                metadata = {"uid": candidates[name].uid, "annotations": {COST_ANNOTATION: written}}
                path = f"/api/v1/namespaces/{step.view.namespace}/pods/{name}"
                check_leads(self._leads)
                self._api.patch(path, {"metadata": metadata}, kind=PatchKind.MERGE, timeout_s=left_s)
        except PortError as error:
            self._tell(NoticeKind.NOT_MARKED, step, str(error))

    def _tell(self, kind: NoticeKind, step: _Step, detail: str = "") -> None:
        self._notify(
            ScaleNotice(
                kind=kind,
                resource=step.resource,
                variant=step.variant,
                view=step.view,
                before=step.view.replicas,
                after=step.replicas,
                detail=detail,
            )
        )


def shrink_held(view: TargetView) -> str | None:
    """Why the count may not go down now; growing is always allowed.

    While a rollout replaces pods, those of the new template start (and are ready late: weights are loaded), and those
    of the old one carry the load. A smaller count takes ready pods of the old template at once, beyond what
    maxUnavailable allows the rollout itself; and what one replica serves was measured on the old template. A rollout
    that is stuck past its progress deadline, or that a person has paused, holds nothing: it may stay so for days.
    """
    rollout = view.rollout
    if rollout is None or rollout.stalled or view.paused:
        return None
    return f"{view.scaled}: {rollout}; it shrinks when that is done"
