"""What judging and writing a target's count needs to know of the cluster, all of it from memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from adapters.kubernetes.binding import Standing as MayScale
from adapters.kubernetes.collections import Kept
from adapters.kubernetes.count_history import CountHistories, ForeignChange
from adapters.kubernetes.deletion_cost import Candidate, Standing
from adapters.kubernetes.foreign_scalers import ForeignScaler
from adapters.kubernetes.owners import Claim, Ownership, contested, ownership
from adapters.kubernetes.pod_life import Life
from adapters.kubernetes.pods import PodView
from adapters.kubernetes.target_view import TargetView
from adapters.kubernetes.targets import Targeted
from autoscaler.domain.resource import AutoscalerResource, Mode
from autoscaler.domain.service import ServiceId

_STANDINGS = {Life.UNSCHEDULED: Standing.UNSCHEDULABLE, Life.READY: Standing.READY, Life.UNREADY: Standing.READY}
_ALIVE = (Life.UNSCHEDULED, Life.STARTING, Life.READY, Life.UNREADY, Life.FAILED)


class Judges:
    """Who else writes which target, for one leadership and one thread; ``Surroundings`` of its actuator.

    Everything is looked at once for each state of the targets, which is once a tick.
    """

    def __init__(
        self,
        *,
        resources: Callable[[], Sequence[AutoscalerResource]],
        targeted: Callable[[], Targeted],
        scalers: Callable[[], Sequence[ForeignScaler]],
        pods: Kept[PodView],
        in_flight: Callable[[str], float | None],
        histories: CountHistories,
        now_s: Callable[[], float],
        last_asked: Callable[[AutoscalerResource, str], int | None],
        changed: Callable[[AutoscalerResource, TargetView, ForeignChange], None],
    ) -> None:
        """``in_flight``: requests that the replica of that name works on, None where that is not known.
        ``last_asked``: what an earlier leader last asked for of a variant, as far as it is told.
        ``changed``: told of each count of ours that somebody else has set.
        """
        self._resources = resources
        self._targeted = targeted
        self._scalers = scalers
        self._pods = pods
        self._in_flight = in_flight
        self._histories = histories
        self._now_s = now_s
        self._last_asked = last_asked
        self._changed = changed
        self._seen: Targeted | None = None
        self._found: Mapping[tuple[ServiceId, str], Ownership] = {}
        self._by_service: Mapping[ServiceId, AutoscalerResource] = {}

    def standing(self, resource: AutoscalerResource, variant: str, view: TargetView) -> MayScale:
        """Whether a target may be scaled by us; as ``JudgeStanding``."""
        found = self.ownership(resource.service.id, variant)
        return MayScale(foreign_owner=found.foreign_owner, suspended=found.suspended)

    def ownership(self, service: ServiceId, variant: str) -> Ownership:
        """Who else writes this target, and what a person should know of it. Raises UnavailableError."""
        self._look()
        found = self._found.get((service, variant))
        return found if found is not None else Ownership()

    def resource(self, service: ServiceId) -> AutoscalerResource | None:
        """The resource that asks for this service, None where it is gone."""
        self._look()
        return self._by_service.get(service)

    def targeted(self) -> Targeted:
        """The targets as they were when the decision was made."""
        return self._targeted()

    def candidates(self, view: TargetView) -> Sequence[Candidate]:
        """The target's pods that do not end yet, with what each has in flight."""
        selector = view.selector
        if selector is None:
            return ()
        return [
            Candidate(
                name=pod.name,
                uid=pod.uid,
                standing=_STANDINGS.get(pod.life, Standing.STARTING),
                created_s=pod.created_s,
                in_flight=self._in_flight(f"{pod.namespace}/{pod.name}"),
                cost=pod.deletion_cost,
            )
            for pod in self._pods.items().values()
            if pod.namespace == view.namespace and pod.life in _ALIVE and selector.matches(pod.labels)
        ]

    def _look(self) -> None:
        targeted = self._targeted()
        if targeted is self._seen:
            return
        scalers = self._scalers()
        self._by_service = {resource.service.id: resource for resource in self._resources()}
        claims = [
            Claim(resource=resource, variant=source.variant, view=view)
            for resource in self._by_service.values()
            for source in resource.sources
            if isinstance(view := targeted.get((resource.namespace, source.target)), TargetView)
        ]
        self._look_at_counts([claim for claim in claims if claim.resource.mode is Mode.SCALE])
        lost = contested(claims)
        totals: dict[ServiceId, int] = {}
        for claim in claims:
            service = claim.resource.service.id
            totals[service] = totals.get(service, 0) + claim.view.replicas
        by_namespace: dict[str, list[ForeignScaler]] = {}
        for scaler in scalers:
            by_namespace.setdefault(scaler.namespace, []).append(scaler)
        self._found = {
            (claim.resource.service.id, claim.variant): ownership(
                claim.view,
                claim.resource,
                scalers=by_namespace.get(claim.view.namespace, ()),
                history=self._histories.of(claim.view),
                other_replicas=totals[claim.resource.service.id] - claim.view.replicas,
                contested_by=lost.get((claim.resource.service.id, claim.variant)),
            )
            for claim in claims
        }
        self._seen = targeted

    def _look_at_counts(self, claims: Sequence[Claim]) -> None:
        """Of targets that we write: in Mode.ADVISE every change is somebody else's, and none is news."""
        now_s = self._now_s()
        for claim in claims:
            asked = self._last_asked(claim.resource, claim.variant)
            if asked is not None:
                self._histories.recall(claim.view, asked, now_s=now_s)
        asking = {claim.view.uid: claim.resource for claim in claims}
        for view, change in self._histories.look([claim.view for claim in claims], now_s=now_s):
            self._changed(asking[view.uid], view, change)
