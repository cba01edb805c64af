"""What happens to a service, as events on its InferenceAutoscaler."""

from __future__ import annotations

from adapters.kubernetes.count_history import ForeignChange
from adapters.kubernetes.event_folding import EventType, Subject
from adapters.kubernetes.events import EventRecorder
from adapters.kubernetes.resources import RESOURCES
from adapters.kubernetes.scaling import NoticeKind, ScaleNotice
from adapters.kubernetes.target_view import TargetView
from adapters.serving.store import why
from autoscaler.domain.plan import Plan, ServiceDecision
from autoscaler.domain.resource import AutoscalerResource, Mode
from autoscaler.domain.service import ServiceId

_KINDS = {
    NoticeKind.SCALED: (EventType.NORMAL, "Scale"),
    NoticeKind.SHRINK_HELD: (EventType.NORMAL, "Hold"),
    NoticeKind.NOT_MARKED: (EventType.WARNING, "Mark"),
}


class Telling:
    """For one leadership and one thread. What was done is told with the decision that it follows from."""

    def __init__(self, events: EventRecorder) -> None:
        self._events = events
        self._done: dict[ServiceId, list[ScaleNotice]] = {}
        self._advised: dict[ServiceId, int] = {}

    def noticed(self, notice: ScaleNotice) -> None:
        """Something was done to a target, by the decision that is published next."""
        self._done.setdefault(notice.resource.service.id, []).append(notice)

    def decided(self, resource: AutoscalerResource, decision: ServiceDecision) -> None:
        """The decision on a service, after it was carried out."""
        reason = f"{decision.binding}: {why(decision)}" if why(decision) else str(decision.binding)
        for notice in self._done.pop(decision.service, ()):
            kind, action = _KINDS[notice.kind]
            count = f"{notice.view.scaled}: {notice.before} -> {notice.after}"
            self._tell(resource, kind, str(notice.kind), action, f"{count}; {notice.detail or reason}")
        if resource.mode is Mode.ADVISE and isinstance(decision.outcome, Plan):
            before = self._advised.get(decision.service)
            self._advised[decision.service] = decision.desired
            if before is not None and before != decision.desired:
                note = f"{before} -> {decision.desired}; {reason}"
                self._tell(resource, EventType.NORMAL, "Advised", "Publish", note)

    def changed_by_others(self, resource: AutoscalerResource, view: TargetView, change: ForeignChange) -> None:
        """Somebody else has set a count that is ours."""
        self._tell(resource, EventType.NORMAL, "CountChanged", "Observe", f"{view.scaled}: {change}")

    def warned(self, resource: AutoscalerResource, warning: str) -> None:
        """What a person should know of a target, though nothing is held for it."""
        self._tell(resource, EventType.WARNING, "Coexistence", "Observe", warning)

    def _tell(self, resource: AutoscalerResource, kind: EventType, reason: str, action: str, note: str) -> None:
        subject = Subject(
            api_version=f"{RESOURCES.group}/{RESOURCES.version}",
            kind="InferenceAutoscaler",
            namespace=resource.namespace,
            name=resource.name,
            uid=resource.uid,
        )
        self._events.record(subject, type=kind, reason=reason, action=action, note=note)
