"""What the metadata of a ScaledObject's trigger asks for."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from adapters.serving.keda.wire import MetricSpec, ScaledObjectRef
from adapters.serving.published import Question
from autoscaler.domain.publication import DESIRED_REPLICAS

SERVICE_KEY = "service"
METRIC_KEY = "metric"
VARIANT_KEY = "variant"
TARGET_SIZE_KEY = "targetSize"

_KEYS = (SERVICE_KEY, METRIC_KEY, VARIANT_KEY, TARGET_SIZE_KEY)
# Part of a URL's path on the HPA's way to KEDA, so letters that need no escape there.
_METRIC_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?")
# HPAs count in thousandths; KEDA writes a target with three decimals.
_LEAST_TARGET_SIZE = 0.001
_MOST_TARGET_SIZE = 1e12


class MetadataError(ValueError):
    """A key's value can't be used; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """A question, and the size to which the HPA relates its answer."""

    question: Question
    target_size: float

    @property
    def spec(self) -> MetricSpec:
        """From the metadata alone: the same whether or not anything is known of the service."""
        return MetricSpec(metric=self.question.metric, target_size=self.target_size)


def trigger_of(scaled_object: ScaledObjectRef) -> Trigger:
    """Read the metadata. KEDA sends all of the trigger's, so keys of others are let pass. Raises MetadataError."""
    metadata = scaled_object.metadata
    for key in metadata:
        meant = next((ours for ours in _KEYS if key != ours and key.lower() == ours.lower()), None)
        if meant is not None:
            raise MetadataError(f"{key}: is written {meant}")
    metric = _text(metadata, METRIC_KEY) or DESIRED_REPLICAS
    if not _METRIC_NAME.fullmatch(metric):
        raise MetadataError(
            f"{METRIC_KEY}: must be letters, digits, '-', '_' and '.', such as {DESIRED_REPLICAS}, got {metric!r}"
        )
    try:
        question = Question(
            namespace=scaled_object.namespace,
            name=_text(metadata, SERVICE_KEY) or scaled_object.name,
            metric=metric,
            variant=_text(metadata, VARIANT_KEY),
        )
    except ValueError as error:
        raise MetadataError(str(error)) from error
    return Trigger(question=question, target_size=_target_size(metadata))


def _text(metadata: Mapping[str, str], key: str) -> str | None:
    if key not in metadata:
        return None
    value = metadata[key].strip()
    if not value:
        raise MetadataError(f"{key}: is empty; give a name or leave the key out")
    return value


def _target_size(metadata: Mapping[str, str]) -> float:
    text = metadata.get(TARGET_SIZE_KEY, "1")
    try:
        size = float(text)
    except ValueError:
        size = math.nan
    if not _LEAST_TARGET_SIZE <= size <= _MOST_TARGET_SIZE:
        raise MetadataError(
            f"{TARGET_SIZE_KEY}: must be a number in [{_LEAST_TARGET_SIZE:g}, {_MOST_TARGET_SIZE:g}], got {text!r}"
        )
    return size
