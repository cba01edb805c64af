"""The messages of KEDA's external scaler as bytes.

The contract is KEDA's (``pkg/scalers/externalscaler/externalscaler.proto``): a client knows messages by the package,
the service and the numbers of the fields. Here are descriptors of the same contract, so that no generated code has to
be kept, and typed values of what passes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

SERVICE: Final = "externalscaler.ExternalScaler"

_PACKAGE = "externalscaler"
_FILE = "gpu_autoscaler/external_scaler.proto"
_Field = descriptor_pb2.FieldDescriptorProto
_KINDS = {
    "string": _Field.TYPE_STRING,
    "bool": _Field.TYPE_BOOL,
    "int64": _Field.TYPE_INT64,
    "double": _Field.TYPE_DOUBLE,
}
# message -> (number, type, name); "*": repeated. A map is a repeated message of its keys and values.
_MESSAGES = {
    "ScaledObjectRef": ((1, "string", "name"), (2, "string", "namespace"), (3, "*Metadata", "scalerMetadata")),
    "IsActiveResponse": ((1, "bool", "result"),),
    "GetMetricSpecResponse": ((1, "*MetricSpec", "metricSpecs"),),
    "MetricSpec": ((1, "string", "metricName"), (2, "int64", "targetSize"), (3, "double", "targetSizeFloat")),
    "GetMetricsRequest": ((1, "ScaledObjectRef", "scaledObjectRef"), (2, "string", "metricName")),
    "GetMetricsResponse": ((1, "*MetricValue", "metricValues"),),
    "MetricValue": ((1, "string", "metricName"), (2, "int64", "metricValue"), (3, "double", "metricValueFloat")),
    "Metadata": ((1, "string", "key"), (2, "string", "value")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledObjectRef:
    """Who asks: a ScaledObject, and all of its trigger's metadata."""

    name: str
    namespace: str
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsRequest:
    """Which metric is asked for, without the prefix that KEDA puts before it in the HPA."""

    scaled_object: ScaledObjectRef
    metric: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """What the HPA divides the metric's value by."""

    metric: str
    target_size: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue:
    """A metric's value now."""

    metric: str
    value: float


class MalformedError(ValueError):
    """The bytes are no message of this kind."""


def read_scaled_object(data: bytes) -> ScaledObjectRef:
    """Raises MalformedError."""
    return _scaled_object(_parsed("ScaledObjectRef", data))


def read_metrics_request(data: bytes) -> MetricsRequest:
    """Raises MalformedError."""
    message = _parsed("GetMetricsRequest", data)
    return MetricsRequest(scaled_object=_scaled_object(message.scaledObjectRef), metric=message.metricName)


def write_activity(active: bool) -> bytes:  # noqa: FBT001 - the shape of a serializer
    """An IsActiveResponse."""
    return _bytes("IsActiveResponse", result=active)


def write_spec(spec: MetricSpec) -> bytes:
    """A GetMetricSpecResponse with one metric. KEDA reads the whole number where it finds no other above zero."""
    one = _CLASSES["MetricSpec"](
        metricName=spec.metric, targetSize=_rounded_up(spec.target_size), targetSizeFloat=spec.target_size
    )
    return _bytes("GetMetricSpecResponse", metricSpecs=[one])


def write_value(value: MetricValue) -> bytes:
    """A GetMetricsResponse with one value. KEDA reads the whole number where it finds no other above zero."""
    one = _CLASSES["MetricValue"](
        metricName=value.metric, metricValue=_rounded_up(value.value), metricValueFloat=value.value
    )
    return _bytes("GetMetricsResponse", metricValues=[one])


def _rounded_up(value: float) -> int:
    """As much as int64 holds."""
    return max(-(2**63), min(2**63 - 1, math.ceil(value)))


def _scaled_object(message: Any) -> ScaledObjectRef:
    return ScaledObjectRef(
        name=message.name,
        namespace=message.namespace,
        metadata={each.key: each.value for each in message.scalerMetadata},
    )


def _parsed(name: str, data: bytes) -> Any:
    try:
        return _CLASSES[name].FromString(data)
    except DecodeError as error:
        raise MalformedError(f"{len(data)} bytes are no {_PACKAGE}.{name}: {error}") from error


def _bytes(name: str, **fields: object) -> bytes:
    data: bytes = _CLASSES[name](**fields).SerializeToString()
    return data


def _build() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name=_FILE, package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, kind, field_name in fields:
            scalar = _KINDS.get(kind)
            message.field.add(
                name=field_name,
                number=number,
                label=_Field.LABEL_REPEATED if kind.startswith("*") else _Field.LABEL_OPTIONAL,
                type=_Field.TYPE_MESSAGE if scalar is None else scalar,
                type_name=f".{_PACKAGE}.{kind.removeprefix('*')}" if scalar is None else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
    }


_CLASSES = _build()
