"""Who writes a field of an object, and which tool installed the object: told by its metadata.

Sources: Kubernetes docs, "Server-Side Apply" (managedFields); Argo CD docs, "Resource Tracking"; Flux docs,
"Kustomization" and "HelmRelease" (the labels of what they apply); Helm docs, "Labels and Annotations".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from adapters.kubernetes.raw_json import JsonObject, inner, moment_s, objects, optional_text, strings
from adapters.kubernetes.target_view import Deployer, FieldWriter


def writers_of(source: JsonObject, *path: str, by_scale: bool = False) -> tuple[FieldWriter, ...]:
    """The managers that own the field at ``path``, the latest first; with ``by_scale`` also those that own any field
    by way of the scale subresource, for objects that have their count elsewhere. Raises ShapeError.

    A zero written through /scale has no owner: a Scale leaves a zero out, and so do its managed fields. Nor has what
    is written through /scale after it (seen with Kubernetes 1.36): no owner is no sign that nobody wrote.
    """
    found = []
    for entry in objects(source, "metadata", "managedFields"):
        subresource = optional_text(entry, "subresource") or ""
        if _owns(inner(entry, "fieldsV1"), path) or (by_scale and subresource == "scale"):
            writer = FieldWriter(
                manager=optional_text(entry, "manager") or "unknown",
                operation=optional_text(entry, "operation") or "Update",
                at_s=moment_s(entry, "time"),
                subresource=subresource,
            )
            found.append(writer)
    # Writes through /scale bear no time. Who changes a value becomes its only owner, so such an entry beside others is
    # from somebody who came after them, or agreed with them.
    return tuple(sorted(found, key=lambda writer: math.inf if writer.at_s is None else writer.at_s, reverse=True))


def _owns(fields: JsonObject, path: Sequence[str]) -> bool:
    """Whether a set of fields holds the one at ``path``."""
    here: Mapping[str, object] = fields
    for key in path:
        below = here.get(f"f:{key}")
        if not isinstance(below, Mapping):
            return False
        here = below
    return True


def deployers_of(source: JsonObject) -> tuple[Deployer, ...]:
    """The tools that say that the object is theirs. Raises ShapeError."""
    labels, annotations = strings(source, "metadata", "labels"), strings(source, "metadata", "annotations")
    found = []
    if tracking := annotations.get("argocd.argoproj.io/tracking-id"):
        found.append(Deployer(tool="Argo CD application", name=tracking.partition(":")[0]))
    elif application := labels.get("argocd.argoproj.io/instance"):
        found.append(Deployer(tool="Argo CD application", name=application))
    for key, tool in _FLUX_LABELS.items():
        if name := labels.get(key):
            found.append(Deployer(tool=tool, name=name))
    release = annotations.get("meta.helm.sh/release-name")
    if release and not found:
        found.append(Deployer(tool="Helm release", name=release))
    return tuple(found)


_FLUX_LABELS = {
    "kustomize.toolkit.fluxcd.io/name": "Flux Kustomization",
    "helm.toolkit.fluxcd.io/name": "Flux HelmRelease",
}
