"""Where in the cluster the requests of a service may go: the pods of its targets, as a Service would choose them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from adapters.kubernetes.assignment import Assignment, Scope
from adapters.kubernetes.binding import TargetSource
from adapters.kubernetes.collections import Kept
from adapters.kubernetes.pod_life import Life
from adapters.kubernetes.pods import PodView
from adapters.kubernetes.replicas import address_of, metrics_port
from adapters.kubernetes.target_view import TargetView
from adapters.kubernetes.targets import TargetProblem
from autoscaler.domain.resource import AutoscalerResource
from autoscaler.domain.service import ServiceId


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPod:
    """One pod that answers requests. ``accepting`` False: it finishes those it has. ``url``: without a path."""

    service: ServiceId
    name: str
    url: str
    accepting: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """``problems``: by service, why pods of it can't be found or asked, sentences for a person."""

    pods: tuple[ServingPod, ...]
    problems: Mapping[ServiceId, tuple[str, ...]]


class ServingPods:
    """Finds the pods of services; for one thread. From memory, without a call to the API server."""

    def __init__(self, *, targets: TargetSource, pods: Kept[PodView]) -> None:
        self._targets = targets
        self._pods = pods
        self._assignment = Assignment()

    def of(self, resources: Sequence[AutoscalerResource]) -> Serving:
        """Those of these resources; a pod that several of them select goes to the first.

        Of a replica that is a group of pods its leader is asked. Raises UnavailableError before the pods are known.
        """
        wanted = [(resource.namespace, source.target) for resource in resources for source in resource.sources]
        targeted = self._targets.refresh(wanted)
        problems: dict[ServiceId, list[str]] = {}
        found: list[tuple[AutoscalerResource, TargetView]] = []
        for resource in resources:
            for source in resource.sources:
                target = targeted.get((resource.namespace, source.target))
                view = target.last if isinstance(target, TargetProblem) else target
                if view is not None and view.selector is not None:
                    found.append((resource, view))
                else:
                    detail = target.detail if isinstance(target, TargetProblem) else "nothing tells which its pods are"
                    problems.setdefault(resource.service.id, []).append(f"{source.target}: {detail}")
        scopes = [Scope(view.namespace, view.selector) for _, view in found]
        assigned = self._assignment.of(self._pods.items(), scopes)
        serving: list[ServingPod] = []
        for (resource, view), pods in zip(found, assigned.pods, strict=True):
            for pod in _asked(view, pods):
                if pod.life not in (Life.READY, Life.UNREADY, Life.ENDING) or pod.ip is None:
                    continue
                port = _port(resource, pod)
                if port is None:
                    named = ", ".join(f"{name or 'unnamed'} {number}" for name, number in pod.ports) or "none"
                    told = f"pod {pod.name}: which port takes requests is not said (it has: {named})"
                    problems.setdefault(resource.service.id, []).append(f"{told}; set spec.requests.port")
                    continue
                serving.append(
                    ServingPod(
                        service=resource.service.id,
                        name=f"{pod.namespace}/{pod.name}",
                        url=address_of(pod.ip, port, scheme=resource.requests.scheme),
                        accepting=pod.life is Life.READY,
                    )
                )
        return Serving(
            pods=tuple(sorted(serving, key=lambda pod: pod.name)),
            problems={key: tuple(told) for key, told in problems.items()},
        )


def _asked(view: TargetView, pods: Sequence[PodView]) -> Sequence[PodView]:
    if view.group_label is None:
        return pods
    if view.leader is not None:
        return [pod for pod in pods if view.leader.matches(pod.labels)]
    first: dict[str, PodView] = {}
    for pod in sorted(pods, key=lambda each: each.name):
        first.setdefault(pod.labels.get(view.group_label, pod.name), pod)
    return list(first.values())


def _port(resource: AutoscalerResource, pod: PodView) -> int | None:
    wanted = resource.requests.port
    if isinstance(wanted, int):
        return wanted
    named = dict(reversed(pod.ports))
    if wanted is not None:
        return named.get(wanted)
    if "http" in named:
        return named["http"]
    return pod.ports[0][1] if len(pod.ports) == 1 else metrics_port(pod, resource.metrics)
