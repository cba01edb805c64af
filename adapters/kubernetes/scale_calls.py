"""The calls that change one count, guarded by the object's version.

The scale subresource: Kubernetes API reference, autoscaling/v1 Scale. A PUT with metadata.resourceVersion, or a patch
that carries one, is refused with 409 when the object has changed (Kubernetes API Concepts, "Resource versions").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from adapters.kubernetes.connection import KubernetesApi, PatchKind
from adapters.kubernetes.raw_json import JsonObject, optional_whole, text
from adapters.kubernetes.target_view import ScaleWrite, TargetView
from autoscaler.ports import ConflictError, RefusedError

_TIMEOUT_S: Final = 5.0
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What the server made of a write: the object's new version and its count (an admission policy may change it)."""

    version: str
    replicas: int


class ScaleCalls:
    """Two calls for each change: the object is read just before, because its version grows with every status.

    ``leads`` is asked between the two: the first may have taken long, and the process may have stood still meanwhile.
    """

    def __init__(self, api: KubernetesApi, *, leads: Callable[[], bool]) -> None:
        self._api = api
        self._leads = leads

    def write(self, view: TargetView, replicas: int) -> Written | None:
        """Change the count that ``view`` shows; None where it has that one already.

        Raises ConflictError where it has another count than ``view``, is another object of the same name, or changes
        again and again between the two calls, or where another replica of the controller may lead; RefusedError with
        what right is missing.
        """
        try:
            for _ in range(_ATTEMPTS - 1):
                change = self._prepared(view, replicas)
                if change is None:
                    return None
                # By a status, as a rule, in which case reading again finds the count that was decided on.
                check_leads(self._leads)
                with suppress(ConflictError):
                    return change()
            change = self._prepared(view, replicas)
            check_leads(self._leads)
            return None if change is None else change()
        except RefusedError as error:
            # Admission policies say "forbidden" too; only the authorizer says what a user cannot do.
            if '" cannot ' not in str(error):
                raise
            raise RefusedError(f"{error} (the role needs {_rights(view.write)})") from error

    def _prepared(self, view: TargetView, replicas: int) -> Callable[[], Written] | None:
        """The call to make, on the object as it is now; None where there is none to make."""
        if view.write.scale_path is not None:
            return self._by_scale(view, view.write.scale_path, replicas)
        return self._by_patch(view, view.write, replicas)

    def _by_scale(self, view: TargetView, path: str, replicas: int) -> Callable[[], Written] | None:
        scale = self._api.get(path, timeout_s=_TIMEOUT_S)
        _check_same(view, scale)
        current = optional_whole(scale, "spec", "replicas") or 0  # a Scale leaves a zero out
        if not _differs(view, current, replicas):
            return None
        metadata = {
            "name": view.scaled.name,
            "namespace": view.namespace,
            "uid": view.uid,
            "resourceVersion": text(scale, "metadata", "resourceVersion"),
        }
        body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas}}
        return lambda: _written_scale(self._api.replace(path, body, timeout_s=_TIMEOUT_S))

    def _by_patch(self, view: TargetView, write: ScaleWrite, replicas: int) -> Callable[[], Written] | None:
        source = self._api.get(write.object_path, timeout_s=_TIMEOUT_S)
        _check_same(view, source)
        operations: list[JsonObject] = []
        if write.guard is not None:
            pointer, expected = write.guard
            if _at(source, pointer) != expected:
                raise ConflictError(f"{view.scaled}: {_path(pointer)} is no longer {expected}")
            operations.append({"op": "test", "path": _path(pointer), "value": expected})
        current = _at(source, write.pointer)
        if not _differs(view, 1 if current is None else current, replicas):
            return None
        operations += [
            {
                "op": "replace",
                "path": "/metadata/resourceVersion",
                "value": text(source, "metadata", "resourceVersion"),
            },
            {"op": "add", "path": _path(write.pointer), "value": replicas},  # which replaces what is there
        ]

        def patch() -> Written:
            answer = self._api.patch(write.object_path, operations, kind=PatchKind.JSON, timeout_s=_TIMEOUT_S)
            made = _at(answer, write.pointer)
            return Written(
                version=text(answer, "metadata", "resourceVersion"),
                replicas=made if isinstance(made, int) else replicas,
            )

        return patch


def check_leads(leads: Callable[[], bool]) -> None:
    """Raises ConflictError where another replica of the controller may lead."""
    if not leads():
        raise ConflictError("this replica of the controller leads no longer; the next leader decides")


def _written_scale(scale: JsonObject) -> Written:
    return Written(
        version=text(scale, "metadata", "resourceVersion"), replicas=optional_whole(scale, "spec", "replicas") or 0
    )


def _check_same(view: TargetView, source: JsonObject) -> None:
    if text(source, "metadata", "uid") != view.uid:
        raise ConflictError(f"{view.scaled} was made anew since the decision")


def _differs(view: TargetView, current: object, replicas: int) -> bool:
    """Whether there is something to write. Raises ConflictError where the count is not the one decided on."""
    if current == replicas:
        return False
    if current != view.replicas:
        raise ConflictError(f"{view.scaled} has {current} replicas; the decision was made on {view.replicas}")
    return True


def _at(source: JsonObject, pointer: Sequence[str | int]) -> object | None:
    here: object = source
    for step in pointer:
        if isinstance(step, int):
            here = here[step] if isinstance(here, list) and step < len(here) else None
        else:
            here = here.get(step) if isinstance(here, dict) else None
    return here


def _path(pointer: Sequence[str | int]) -> str:
    return "".join(f"/{step}" for step in pointer)


def _rights(write: ScaleWrite) -> str:
    resource = write.object_path.rsplit("/", 2)[1]
    return f"get and update on {resource}/scale" if write.scale_path else f"get and patch on {resource}"
