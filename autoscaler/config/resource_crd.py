"""The CustomResourceDefinition of InferenceAutoscaler, made of the sections' types."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from autoscaler.config.document import write_document
from autoscaler.config.resource_rules import expressions
from autoscaler.config.resource_schema import ResourceSection
from autoscaler.config.resource_status_schema import StatusSection
from autoscaler.config.resource_structure import structural

GROUP, VERSION, KIND, PLURAL = "gpu-autoscaler.io", "v1alpha1", "InferenceAutoscaler", "inferenceautoscalers"
SHORT_NAME = "ia"


def _known(condition: str) -> str:
    return f'.status.conditions[?(@.type=="{condition}")].status'


# (heading, type, where, priority): what `kubectl get` shows; of priority 1 only `-o wide`.
COLUMNS: tuple[tuple[str, str, str, int], ...] = (
    ("Mode", "string", ".spec.mode", 0),
    ("Desired", "integer", ".status.desiredReplicas", 0),
    ("Current", "integer", ".status.replicas", 0),
    ("Ready", "integer", ".status.readyReplicas", 0),
    ("Min", "integer", ".spec.minReplicas", 0),
    ("Max", "integer", ".spec.maxReplicas", 0),
    ("Valid", "string", _known("Ready"), 0),
    ("Known", "string", _known("MetricsKnown"), 0),
    ("Reason", "string", ".status.reason", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Limited", "string", _known("Limited"), 1),
    ("Conflict", "string", _known("OwnerConflict"), 1),
    ("Decided", "date", ".status.decidedAt", 1),
    ("Message", "string", ".status.message", 1),
)


@functools.cache
def custom_resource_definition() -> Mapping[str, Any]:
    """The object to be applied to a cluster.

    It has a status but no scale subresource: an HPA or KEDA must scale the targets, never this resource.
    """
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": [SHORT_NAME],
                "categories": ["all"],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _schema()},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind, "jsonPath": path, **({"priority": priority} if priority else {})}
                        for name, kind, path, priority in COLUMNS
                    ],
                }
            ],
        },
    }
    copied: dict[str, Any] = json.loads(json.dumps(definition))  # no part twice, so that YAML needs no anchors
    return copied


def definition_file() -> str:
    """The chart's file."""
    return "# Made from the configuration's schema by `make docs`.\n" + write_document(
        dict(custom_resource_definition())
    )


def _schema() -> dict[str, Any]:
    resource = structural(ResourceSection, expressions())
    own = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    resource["properties"] = {**own, **resource["properties"], "status": structural(StatusSection, {})}
    return resource
