"""A client as KEDA is one: its own idea of the messages, and all of a trigger's metadata in each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

Sent = TypeVar("Sent")
_WITHIN_S = 20.0

# What a client of KEDA knows: package, names and numbers, in protobuf's text format.
_CONTRACT = """
name: "client.proto" package: "externalscaler" syntax: "proto3"
message_type {
  name: "ScaledObjectRef"
  field { name: "name" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "namespace" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "scalerMetadata" number: 3 type: TYPE_MESSAGE label: LABEL_REPEATED
          type_name: ".externalscaler.ScaledObjectRef.ScalerMetadataEntry" }
  nested_type {
    name: "ScalerMetadataEntry"
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
    options { map_entry: true }
  }
}
message_type {
  name: "GetMetricsRequest"
  field { name: "scaledObjectRef" number: 1 type: TYPE_MESSAGE label: LABEL_OPTIONAL
          type_name: ".externalscaler.ScaledObjectRef" }
  field { name: "metricName" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
}
message_type {
  name: "IsActiveResponse"
  field { name: "result" number: 1 type: TYPE_BOOL label: LABEL_OPTIONAL }
}
message_type {
  name: "Named"
  field { name: "metricName" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "whole" number: 2 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "exact" number: 3 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
}
message_type {
  name: "ListOfNamed"
  field { name: "items" number: 1 type: TYPE_MESSAGE label: LABEL_REPEATED type_name: ".externalscaler.Named" }
}
"""
_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(text_format.Parse(_CONTRACT, descriptor_pb2.FileDescriptorProto()))


def _message(kind: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"externalscaler.{kind}"))


def ref_of(name: str, namespace: str, metadata: Mapping[str, str]) -> Any:
    """A ScaledObjectRef."""
    return _message("ScaledObjectRef")(name=name, namespace=namespace, scalerMetadata=dict(metadata))


@dataclass(frozen=True)
class Named:
    """A metric's spec or value: the whole number that old clients read, and the exact one."""

    metric: str
    whole: int
    exact: float


class Stream(Generic[Sent]):
    """An open stream; it fails after 20 s."""

    def __init__(self, call: Any, read: Callable[[bytes], Sent]) -> None:
        self._call = call
        self._read = read

    def next(self) -> Sent:
        """What is sent next. Raises StopIteration at a good end and RpcError at another."""
        return self._read(next(self._call))

    def ends(self) -> grpc.StatusCode:
        """Wait for the end; its code."""
        code: grpc.StatusCode = self._call.code()
        return code

    def why(self) -> str:
        """What the server said at the end."""
        details: str = self._call.details()
        return details

    def cancel(self) -> None:
        """Leave."""
        self._call.cancel()


def refusal(call: Callable[[], object]) -> tuple[grpc.StatusCode, str]:
    """Code and text of the error that the call ends with."""
    try:
        answer = call()
    except grpc.RpcError as error:
        failed: Any = error
        return failed.code(), failed.details()
    raise AssertionError(f"answered {answer}")


class Caller:
    """The five methods over one channel. Keywords beyond name and namespace are the trigger's metadata."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    def is_active(self, *, name: str = "chat", namespace: str = "prod", **metadata: str) -> bool:
        answer = self.raw("IsActive", ref_of(name, namespace, metadata).SerializeToString())
        return _activity(answer)

    def spec(self, *, name: str = "chat", namespace: str = "prod", **metadata: str) -> list[Named]:
        return _named(self.raw("GetMetricSpec", ref_of(name, namespace, metadata).SerializeToString()))

    def metrics(
        self, asked: str | None = None, *, name: str = "chat", namespace: str = "prod", **metadata: str
    ) -> list[Named]:
        """``asked``: the metric, if not the one that the metadata say."""
        ref = ref_of(name, namespace, metadata)
        metric = metadata.get("metric", "desired_replicas") if asked is None else asked
        request = _message("GetMetricsRequest")(scaledObjectRef=ref, metricName=metric)
        return _named(self.raw("GetMetrics", request.SerializeToString()))

    def activity(self, *, name: str = "chat", namespace: str = "prod", **metadata: str) -> Stream[bool]:
        return Stream(self._open("StreamIsActive", name, namespace, metadata), _activity)

    def specs(self, *, name: str = "chat", namespace: str = "prod", **metadata: str) -> Stream[list[Named]]:
        return Stream(self._open("StreamMetricSpec", name, namespace, metadata), _named)

    def raw(self, method: str, data: bytes) -> bytes:
        """Bytes for bytes. Raises RpcError."""
        call: Callable[..., bytes] = self._channel.unary_unary(f"/externalscaler.ExternalScaler/{method}")
        return call(data, timeout=_WITHIN_S)

    def _open(self, method: str, name: str, namespace: str, metadata: Mapping[str, str]) -> Any:
        call: Callable[..., Any] = self._channel.unary_stream(f"/externalscaler.ExternalScaler/{method}")
        return call(ref_of(name, namespace, metadata).SerializeToString(), timeout=_WITHIN_S)


def _activity(data: bytes) -> bool:
    return bool(_message("IsActiveResponse").FromString(data).result)


def _named(data: bytes) -> list[Named]:
    return [Named(each.metricName, each.whole, each.exact) for each in _message("ListOfNamed").FromString(data).items]
