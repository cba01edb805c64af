"""Others that scale: HorizontalPodAutoscalers, KEDA's ScaledObjects, VerticalPodAutoscalers.

Shapes: Kubernetes API reference, autoscaling/v2; KEDA docs, "ScaledObject specification" (and its pause annotations);
VPA API reference, autoscaling.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from adapters.kubernetes.connection import Collection, KubernetesApi
from adapters.kubernetes.following import current
from adapters.kubernetes.raw_json import JsonObject, found, inner, objects, optional_text, strings, text
from adapters.kubernetes.scalable import controller_of
from adapters.kubernetes.watching import Watched
from autoscaler.domain.publication import DESIRED_REPLICAS
from autoscaler.domain.resource import TargetRef

HPAS: Final = Collection(group="autoscaling", version="v2", plural="horizontalpodautoscalers")
SCALED_OBJECTS: Final = Collection(group="keda.sh", version="v1alpha1", plural="scaledobjects")
VPAS: Final = Collection(group="autoscaling.k8s.io", version="v1", plural="verticalpodautoscalers")

_PAUSED = "autoscaling.keda.sh/paused"
_KINDS = ("HorizontalPodAutoscaler", "ScaledObject", "VerticalPodAutoscaler")
_EVICTING = ("Auto", "Recreate", "InPlaceOrRecreate")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignScaler:
    """One of them. ``made_by``: the object that made it and stands for it (KEDA's HPAs).

    ``reads``: what it scales on, for people. ``follows_us``: it does no more than carry our numbers out.
    ``writes_replicas``: whether it changes the count. ``evicts``: whether it restarts pods.
    """

    kind: str
    namespace: str
    name: str
    target: TargetRef | None
    reads: tuple[str, ...] = ()
    follows_us: bool = False
    writes_replicas: bool = True
    evicts: bool = False
    made_by: TargetRef | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def hpa_of(source: JsonObject) -> ForeignScaler:
    """A HorizontalPodAutoscaler. Raises ShapeError."""
    metrics = objects(source, "spec", "metrics")
    reads = tuple(_metric_name(metric) for metric in metrics)
    return ForeignScaler(
        kind="HorizontalPodAutoscaler",
        namespace=text(source, "metadata", "namespace"),
        name=text(source, "metadata", "name"),
        target=_target(inner(source, "spec", "scaleTargetRef"), kind=""),
        reads=reads,
        follows_us=bool(metrics) and all(_is_ours(metric) for metric in metrics),
        made_by=controller_of(source),
    )


def _metric_name(metric: JsonObject) -> str:
    of = {"Resource": "resource", "ContainerResource": "containerResource"}.get(text(metric, "type"))
    if of is not None:
        return text(metric, of, "name")
    kind = {"Pods": "pods", "Object": "object", "External": "external"}.get(text(metric, "type"), "")
    return optional_text(metric, kind, "metric", "name") or text(metric, "type")


def _is_ours(metric: JsonObject) -> bool:
    return text(metric, "type") == "External" and _metric_name(metric) == DESIRED_REPLICAS


def scaled_object_of(source: JsonObject) -> ForeignScaler:
    """A ScaledObject of KEDA; a paused one leaves the count alone. Raises ShapeError."""
    triggers = objects(source, "spec", "triggers")
    paused = strings(source, "metadata", "annotations").get(_PAUSED, "false") == "true"
    return ForeignScaler(
        kind="ScaledObject",
        namespace=text(source, "metadata", "namespace"),
        name=text(source, "metadata", "name"),
        target=_target(inner(source, "spec", "scaleTargetRef"), kind="Deployment"),
        reads=tuple(text(trigger, "type") for trigger in triggers),
        follows_us=bool(triggers) and all(_may_be_ours(trigger) for trigger in triggers),
        writes_replicas=not paused,
    )


def _may_be_ours(trigger: JsonObject) -> bool:
    """External triggers, and JSON that is read at our number's name; whose address that is can't be told here."""
    kind = text(trigger, "type")
    metadata = strings(trigger, "metadata")
    if kind in ("external", "external-push"):
        return metadata.get("metric", DESIRED_REPLICAS) == DESIRED_REPLICAS
    return kind == "metrics-api" and DESIRED_REPLICAS in metadata.get("valueLocation", "") + metadata.get("url", "")


def vpa_of(source: JsonObject) -> ForeignScaler:
    """A VerticalPodAutoscaler: it changes requests and evicts pods for it, but never the count. Raises ShapeError."""
    mode = optional_text(source, "spec", "updatePolicy", "updateMode") or "Auto"
    target = inner(source, "spec", "targetRef")
    return ForeignScaler(
        kind="VerticalPodAutoscaler",
        namespace=text(source, "metadata", "namespace"),
        name=text(source, "metadata", "name"),
        target=_target(target, kind="") if target else None,
        reads=(f"updateMode {mode}",),
        writes_replicas=False,
        evicts=mode in _EVICTING,
    )


def _target(source: JsonObject, *, kind: str) -> TargetRef:
    named = optional_text(source, "kind") if found(source, "kind") is not None else kind
    return TargetRef(
        api_version=optional_text(source, "apiVersion") or "apps/v1", kind=named or "", name=text(source, "name")
    )


class ForeignScalers:
    """All of them, watched. ``namespace``: the only one that is looked at, None for all."""

    def __init__(
        self,
        api: KubernetesApi,
        *,
        now_s: Callable[[], float],
        namespace: str | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """``changed`` is called after each change, in the thread of a watch."""
        self._watched = tuple(
            Watched(
                api,
                collection if namespace is None else collection.within(namespace),
                translate,
                now_s=now_s,
                optional=collection is not HPAS,
            )
            for collection, translate in ((HPAS, hpa_of), (SCALED_OBJECTS, scaled_object_of), (VPAS, vpa_of))
        )
        for watched in self._watched:
            watched.subscribe(changed)

    def start(self) -> None:
        """Begin to watch."""
        for watched in self._watched:
            watched.start()

    def close(self) -> None:
        """End it."""
        for watched in self._watched:
            watched.close()

    def all(self) -> tuple[ForeignScaler, ...]:
        """Those that exist. Raises UnavailableError before all are known, and where they were not heard of for too
        long: until then nothing may be written.
        """
        return tuple(
            scaler
            for kind, watched in zip(_KINDS, self._watched, strict=True)
            for scaler in current(watched, kind=kind).values()
        )
