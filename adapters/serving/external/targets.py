"""What a request is about, read once from its target, for the authorizer and for the answer alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from urllib.parse import parse_qsl, unquote_to_bytes

from adapters.serving.external.answers import FailedError, Failure
from adapters.serving.external.discovery import GROUP, VERSION
from autoscaler.domain.caller import Access

_MOST_PARAMETERS = 32
_MOST_KEPT = 1024  # the same few are read again and again
# To kube-apiserver these are parts of the namespace, so that it would ask its authorizer something else than we do.
_NO_METRICS = ("status", "finalize")
_TRUE = ("1", "t", "T", "true", "TRUE", "True")


class Fixed(Enum):
    """Targets with one answer each."""

    LIVE = "live"
    READY = "ready"
    OPENAPI = "openapi"
    GROUPS = "/apis"
    GROUP = "/apis/GROUP"
    RESOURCES = "/apis/GROUP/VERSION"
    NOTHING = "nothing"


_BY_PATH = {
    "/livez": Fixed.LIVE,
    "/healthz": Fixed.LIVE,
    "/readyz": Fixed.READY,
    "/openapi/v2": Fixed.OPENAPI,
    "/openapi/v3": Fixed.OPENAPI,
    "/apis": Fixed.GROUPS,
    f"/apis/{GROUP}": Fixed.GROUP,
    f"/apis/{GROUP}/{VERSION}": Fixed.RESOURCES,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRead:
    """Values of a metric within a namespace."""

    namespace: str
    metric: str
    query: str

    @property
    def access(self) -> Access:
        """The question to the authorizer: the one that kube-apiserver asks (k8s.io/apiserver, requestinfo.go).

        A path without the name of one object is a list.
        """
        return Access(verb="list", group=GROUP, version=VERSION, resource=self.metric, namespace=self.namespace)

    def label_selector(self) -> str:
        """Of the query; "" for everything. Raises FailedError for a query that can't be answered."""
        if not self.query:
            return ""
        query = _parameters(self.query)
        if query.get("watch", "") in _TRUE:
            raise FailedError(Failure.METHOD_NOT_ALLOWED, "metrics can't be watched; read them again and again")
        if query.get("fieldSelector"):
            raise FailedError(Failure.BAD_REQUEST, "metrics have no fields to select by; use labelSelector")
        return query.get("labelSelector", "")


Target = Fixed | MetricRead


@lru_cache(maxsize=_MOST_KEPT)
def parse_target(raw: str) -> Target:
    """A request's target as it was sent. Raises FailedError for what can't be decoded."""
    raw_path, _, query = raw.partition("?")
    # Decoded first and split after, as Go does: an encoded slash is a slash to kube-apiserver's authorizer too.
    path = _decoded(raw_path)
    fixed = _BY_PATH.get(path)
    if fixed is not None:
        return fixed
    match path.split("/"):
        case ["", "apis", group, version, "namespaces", namespace, metric] if (group, version) == (GROUP, VERSION):
            if namespace and metric and metric not in _NO_METRICS:
                return MetricRead(namespace=namespace, metric=metric, query=query)
        case ["", "openapi", *_]:
            return Fixed.OPENAPI
    return Fixed.NOTHING


def _decoded(raw: str) -> str:
    try:
        path = unquote_to_bytes(raw.encode("ascii")).decode("utf-8") if "%" in raw else raw
    except UnicodeError as error:
        raise FailedError(Failure.BAD_REQUEST, "the path must be UTF-8 with percent signs") from error
    if not path.isprintable():
        raise FailedError(Failure.BAD_REQUEST, "the path holds characters that can't be printed")
    return path


@lru_cache(maxsize=_MOST_KEPT)
def _parameters(query: str) -> Mapping[str, str]:
    """Of several with one name the first counts, as for Go's url.Values.Get."""
    found: dict[str, str] = {}
    try:
        for key, value in parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=_MOST_PARAMETERS):
            found.setdefault(key, value)
    except ValueError as error:
        raise FailedError(Failure.BAD_REQUEST, f"the query can't be read: {error}") from error
    return found
