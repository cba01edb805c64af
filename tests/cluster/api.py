"""A small client of the API server for what tests prepare and look at: JSON as it is."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

import yaml

from tests.cluster.certificates import KeyPair

# Tests look into objects of any kind; what they look at is theirs to know.
Json = dict[str, Any]

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
FIELD_MANAGER = "test-setup"
_PATIENCE_S = 30.0
_PAUSE_S = 0.5


class ApiError(Exception):
    """The API server refused. ``status``: HTTP's; ``body``: the Status object, or what else came."""

    def __init__(self, status: int, body: object, request: str) -> None:
        super().__init__(f"{request}: {status} {body}")
        self.status = status
        self.body = body


class ApiClient:
    """Requests to one API server on 127.0.0.1, each on a connection of its own, so that threads may share a client."""

    def __init__(self, port: int, *, ca: str, client: KeyPair | None = None, token: str | None = None) -> None:
        self._port = port
        self._context = ssl.create_default_context(cafile=ca)
        if client is not None:
            self._context.load_cert_chain(client.certificate, client.key)
        self._authorization = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._plurals: dict[tuple[str, str], tuple[str, bool]] = {}

    def request(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json", **query: str
    ) -> Json:
        """One request; answers the parsed JSON. Raises ApiError, or OSError where the server is away.

        A kind that has just been defined anew is "(re)initializing" for a moment: 429, to be asked again.
        """
        whole = f"{path}?{urlencode(query)}" if query else path
        status, text = self._exchange(method, whole, body, content_type)
        deadline_s = time.monotonic() + _PATIENCE_S
        while status == 429 and time.monotonic() < deadline_s:
            time.sleep(_PAUSE_S)
            status, text = self._exchange(method, whole, body, content_type)
        answer = _parsed(text)
        if status >= 400 or not isinstance(answer, dict):
            raise ApiError(status, answer, f"{method} {whole}")
        return answer

    def ready(self) -> bool:
        """The server says that it is."""
        try:
            status, _ = self._exchange("GET", "/readyz", None, "application/json")
        except OSError:
            return False
        return status == 200

    def get(self, path: str, **query: str) -> Json:
        """Read an object or a list."""
        return self.request("GET", path, **query)

    def find(self, path: str) -> Json | None:
        """Read an object; None where there is none."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def items(self, path: str, **query: str) -> list[Json]:
        """The objects of a list."""
        return list(self.get(path, **query)["items"])

    def post(self, path: str, body: object) -> Json:
        """Create."""
        return self.request("POST", path, body)

    def put(self, path: str, body: object) -> Json:
        """Replace."""
        return self.request("PUT", path, body)

    def patch(self, path: str, body: object, *, content_type: str = MERGE) -> Json:
        """Change a part; a JSON merge patch unless told otherwise."""
        return self.request("PATCH", path, body, content_type=content_type)

    def delete(self, path: str, body: object = None) -> None:
        """Delete; nothing happens where it is gone already."""
        try:
            self.request("DELETE", path, body)
        except ApiError as error:
            if error.status != 404:
                raise

    def apply(self, manifests: str | Iterable[Mapping[str, Any]], *, namespace: str = "default") -> list[Json]:
        """Server-side apply of YAML text or of objects; ``namespace`` is for those that live in one and name none."""
        objects = _documents(manifests) if isinstance(manifests, str) else manifests
        return [
            self.request(
                "PATCH",
                self.path_of(each, namespace),
                each,
                content_type=APPLY,
                fieldManager=FIELD_MANAGER,
                force="true",
            )
            for each in objects
        ]

    def path_of(self, body: Mapping[str, Any], namespace: str = "default") -> str:
        """Where an object lives. Raises ApiError where the server does not know its kind."""
        version, kind, metadata = body["apiVersion"], body["kind"], body["metadata"]
        plural, namespaced = self._plural(version, kind)
        within = f"/namespaces/{metadata.get('namespace', namespace)}" if namespaced else ""
        return f"{_group_path(version)}{within}/{plural}/{metadata['name']}"

    def _exchange(self, method: str, whole: str, body: object, content_type: str) -> tuple[int, str]:
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=self._context, timeout=60)
        try:
            payload = None if body is None else json.dumps(body)
            headers = {"Accept": "application/json", "Content-Type": content_type, **self._authorization}
            connection.request(method, whole, payload, headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except http.client.HTTPException as error:
            raise ConnectionError(f"{method} {whole}: {error!r}") from error
        finally:
            connection.close()

    def _plural(self, version: str, kind: str) -> tuple[str, bool]:
        if (version, kind) not in self._plurals:
            path = _group_path(version)
            for each in self.get(path)["resources"]:
                if "/" not in each["name"]:
                    self._plurals[version, each["kind"]] = each["name"], each["namespaced"]
            if (version, kind) not in self._plurals:
                raise ApiError(404, f"no kind {kind}", f"GET {path}")
        return self._plurals[version, kind]


def _group_path(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _documents(text: str) -> list[Json]:
    return [each for each in yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) if each]


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
