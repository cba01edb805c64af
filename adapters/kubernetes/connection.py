"""One connection to the API server: raw JSON in and out, bounded in time, errors as ``PortError`` kinds.

Configuration, credentials and TLS are the official client's; its typed models are left out, because they cost several
times the JSON itself (and pods come by the thousand).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from enum import StrEnum
from pathlib import Path
from time import monotonic
from typing import Final
from urllib.parse import quote, urlencode

import urllib3
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes.utils.keepalive import tcp_keepalive_socket_options

from adapters.kubernetes.api_errors import error_of
from adapters.kubernetes.raw_json import JsonObject
from adapters.kubernetes.streaming import FAILURES, LineStream, body_of, broken
from autoscaler.ports import InvalidAnswerError, PortError, RefusedError, UnavailableError

FIELD_MANAGER: Final = "gpu-autoscaler"
DEFAULT_TIMEOUT_S: Final = 10.0
_CONNECT_S: Final = 5.0
_POOL: Final = 64
_RELOAD_EVERY_S: Final = 10.0
_UNAUTHORIZED: Final = 401
_NO_QUERY: Final[Mapping[str, str]] = {}

LoadConfiguration = Callable[[Configuration], None]


class PatchKind(StrEnum):
    """How a patch is meant; the value is its content type."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Where the objects of one resource are served; ``group`` "" is the core group, no ``namespace`` means all."""

    group: str
    version: str
    plural: str
    namespace: str | None = None

    @property
    def path(self) -> str:
        """Of the collection."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = "" if self.namespace is None else f"/namespaces/{quote(self.namespace, safe='')}"
        return f"{root}{within}/{self.plural}"

    def within(self, namespace: str) -> Collection:
        """The same resource in one namespace."""
        return replace(self, namespace=namespace)

    def item(self, name: str) -> str:
        """Path of one object."""
        return f"{self.path}/{quote(name, safe='')}"

    def subresource(self, name: str, subresource: str) -> str:
        """Path of an object's ``scale``, ``status`` ..."""
        return f"{self.item(name)}/{subresource}"


class KubernetesApi:
    """Calls to one API server; safe to use from several threads.

    ``timeout_s`` bounds a call from its connecting to the last byte of its answer (looking up a name apart, which
    the resolver bounds). Every call raises PortError and nothing else: UnavailableError (no connection, no answer in
    time, 5xx; BusyError with 429), RefusedError (400, 401, 403, 422 ...; NotFoundError with 404), ConflictError (409),
    GoneError (410), InvalidAnswerError (no JSON object).
    """

    def __init__(self, load: LoadConfiguration) -> None:
        """``load`` fills in a configuration, and does so again when the server no longer takes the credentials."""
        self._load = load
        self._lock = threading.Lock()
        self._rest = self._loaded()
        self._loaded_at_s = monotonic()

    @classmethod
    def in_cluster(cls) -> KubernetesApi:
        """As the pod's service account; its token is read again every minute. Raises RefusedError outside a pod."""
        return cls(load_incluster_config)

    @classmethod
    def of_kubeconfig(cls, path: Path | None = None, *, context: str | None = None) -> KubernetesApi:
        """As a kubeconfig says (None: $KUBECONFIG or ~/.kube/config), tokens, certificates and exec plugins included.

        Raises RefusedError where it can't be read or lacks the context.
        """

        def load(configuration: Configuration) -> None:
            # Refreshed tokens stay in memory: the file belongs to its owner.
            load_kube_config(  # type: ignore[no-untyped-call]
                config_file=None if path is None else str(path),
                context=context,
                client_configuration=configuration,
                persist_config=False,
            )

        return cls(load)

    @property
    def address(self) -> str:
        """URL of the server."""
        return str(self._rest.configuration.host)

    def get(
        self, path: str, query: Mapping[str, str] = _NO_QUERY, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> JsonObject:
        """One object, or one page of a list."""
        return self._call("GET", path, query=query, timeout_s=timeout_s)

    def create(
        self,
        path: str,
        body: JsonObject,
        query: Mapping[str, str] = _NO_QUERY,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> JsonObject:
        """POST to a collection, or to a subresource such as ``eviction``. Raises ConflictError where it exists."""
        return self._call("POST", path, query=_managed(query), body=body, timeout_s=timeout_s)

    def replace(
        self,
        path: str,
        body: JsonObject,
        query: Mapping[str, str] = _NO_QUERY,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> JsonObject:
        """PUT; with metadata.resourceVersion in ``body`` a change made meanwhile raises ConflictError."""
        return self._call("PUT", path, query=_managed(query), body=body, timeout_s=timeout_s)

    def patch(
        self,
        path: str,
        body: JsonObject | Sequence[JsonObject],
        *,
        kind: PatchKind,
        force: bool = False,
        query: Mapping[str, str] = _NO_QUERY,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> JsonObject:
        """PATCH; a JSON patch is a list of operations. ``force`` (apply only) takes fields over from other managers."""
        forced = {"force": "true"} if force else {}
        query = _managed({**query, **forced})
        return self._call("PATCH", path, query=query, body=body, kind=str(kind), timeout_s=timeout_s)

    def delete(
        self, path: str, options: JsonObject | None = None, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> JsonObject:
        """DELETE; ``options`` is a DeleteOptions object (preconditions, propagationPolicy ...)."""
        return self._call("DELETE", path, body=options, timeout_s=timeout_s)

    def stream(self, path: str, query: Mapping[str, str] = _NO_QUERY, *, silence_s: float) -> LineStream:
        """The lines of an answer without end (a watch); ``silence_s`` bounds the wait for each piece of it.

        Close it. Raises PortError here where the server refuses, and from its iterator where the connection breaks.
        """
        doing = f"GET {path}"
        response = self._send("GET", path, query=query, timeout=urllib3.Timeout(connect=_CONNECT_S, read=silence_s))
        if response.status // 100 != 2:
            raise self._refused(doing, response, monotonic() + silence_s)
        return LineStream(response, doing=doing)

    def server_date_s(self, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> float:
        """The server's clock (header Date), in whole seconds since the epoch. Raises InvalidAnswerError without it."""
        doing, ends_s = "GET /version", monotonic() + timeout_s
        response = self._send("GET", "/version", query=_NO_QUERY, timeout=urllib3.Timeout(total=timeout_s))
        body_of(response, doing=doing, ends_s=ends_s)
        written = response.headers.get("Date", "")
        try:
            return parsedate_to_datetime(written).timestamp()
        except ValueError as error:
            raise InvalidAnswerError(f"{doing}: wanted a header Date, got {written!r}") from error

    def close(self) -> None:
        """Let go of idle connections."""
        self._rest.close()

    def _call(
        self,
        verb: str,
        path: str,
        *,
        timeout_s: float,
        query: Mapping[str, str] = _NO_QUERY,
        body: JsonObject | Sequence[JsonObject] | None = None,
        kind: str = "application/json",
    ) -> JsonObject:
        ends_s = monotonic() + timeout_s
        timeout = urllib3.Timeout(connect=min(_CONNECT_S, timeout_s), total=timeout_s)
        response = self._send(verb, path, query=query, body=body, kind=kind, timeout=timeout)
        doing = f"{verb} {path}"
        if response.status // 100 != 2:
            raise self._refused(doing, response, ends_s)
        data = body_of(response, doing=doing, ends_s=ends_s)
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise InvalidAnswerError(f"{doing}: no JSON came, {data[:80]!r}: {error}") from error
        if not isinstance(answer, dict):
            raise InvalidAnswerError(f"{doing}: wanted an object, got {type(answer).__name__}")
        return answer

    def _send(
        self,
        verb: str,
        path: str,
        *,
        query: Mapping[str, str],
        timeout: urllib3.Timeout,
        body: JsonObject | Sequence[JsonObject] | None = None,
        kind: str = "application/json",
    ) -> urllib3.BaseHTTPResponse:
        """The answer, its body unread. Credentials refused once are loaded again, from wherever they come."""
        for attempt in (1, 2):
            response = self._send_once(verb, path, query=query, timeout=timeout, body=body, kind=kind)
            if response.status != _UNAUTHORIZED or attempt == 2 or not self._reload():
                return response
            response.close()
        raise AssertionError("unreachable")

    def _send_once(
        self,
        verb: str,
        path: str,
        *,
        query: Mapping[str, str],
        timeout: urllib3.Timeout,
        body: JsonObject | Sequence[JsonObject] | None,
        kind: str,
    ) -> urllib3.BaseHTTPResponse:
        rest = self._rest
        headers = {"Accept": "application/json", "User-Agent": FIELD_MANAGER, **self._credentials(rest.configuration)}
        sent = None
        if body is not None:
            headers["Content-Type"] = kind
            sent = json.dumps(body, separators=(",", ":")).encode()
        url = f"{rest.configuration.host}{path}"
        if query:
            url += f"?{urlencode(query)}"
        try:
            return rest.pool_manager.request(
                verb, url, body=sent, headers=headers, timeout=timeout, preload_content=False
            )
        except FAILURES as error:
            raise broken(f"{verb} {path}", error) from error

    def _credentials(self, configuration: Configuration) -> Mapping[str, str]:
        """The Authorization header, from a token that is refreshed when it nears its end."""
        with self._credentials_lock():
            try:
                header = configuration.auth_settings().get("BearerToken", {}).get("value")
            except (ConfigException, OSError, ValueError) as error:
                raise UnavailableError(f"the credentials could not be refreshed: {error}") from error
        return {"Authorization": str(header).strip()} if header else {}

    def _reload(self) -> bool:
        """Whether the credentials were loaded anew just now, by this thread or another."""
        with self._credentials_lock():
            if monotonic() - self._loaded_at_s < _RELOAD_EVERY_S:
                return False
            self._loaded_at_s = monotonic()
            retired, self._rest = self._rest, self._loaded()
        retired.close()
        return True

    @contextmanager
    def _credentials_lock(self) -> Iterator[None]:
        # An exec plugin can hang: only the thread that runs it waits for it.
        if not self._lock.acquire(timeout=_CONNECT_S):
            raise UnavailableError("the credentials are being refreshed, for longer than a call may wait")
        try:
            yield
        finally:
            self._lock.release()

    def _loaded(self) -> RESTClientObject:
        configuration = Configuration()
        try:
            self._load(configuration)
        except Exception as error:  # whatever YAML, Base64 or a plugin makes of it
            raise RefusedError(f"no way to the API server: {error}") from error
        # Retries are the caller's: the library's own sleep as long as a Retry-After says.
        configuration.retries = False
        # A thread for each watched collection; beyond this many, connections are made anew at each call.
        configuration.connection_pool_maxsize = _POOL
        configuration.socket_options = tcp_keepalive_socket_options(idle=10, interval=5, count=3)
        return RESTClientObject(configuration)

    def _refused(self, doing: str, response: urllib3.BaseHTTPResponse, ends_s: float) -> PortError:
        headers = {name.lower(): value for name, value in response.headers.items()}
        try:
            body = body_of(response, doing=doing, ends_s=ends_s)
        except PortError:
            body = b""
        return error_of(doing=doing, code=response.status, headers=headers, body=body)


def _managed(query: Mapping[str, str]) -> Mapping[str, str]:
    return {"fieldManager": FIELD_MANAGER, **query}
