"""A real server with real TLS, a cluster's CAs, and an API server's word on tokens and rights that a test writes."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adapters.serving.external.server import ExternalMetricsServer
from adapters.serving.external.settings import ExternalMetricsSettings
from autoscaler.domain.caller import Access, CallerTrust, TokenRefused, User, Verdict
from autoscaler.domain.publication import Publication
from autoscaler.domain.reading import Measured, Unknown
from autoscaler.ports import UnavailableError
from tests.external_metrics.authorities import NOW, SERVER, Pair, authority, issue

START_S = NOW.timestamp()
API = "/apis/external.metrics.k8s.io/v1beta1"
HPA = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"
AUDIENCE = "https://kubernetes.default.svc"
Headers = Sequence[tuple[str, str]]


def a_publication(
    name: str,
    desired: int | Unknown = 3,
    *,
    namespace: str = "prod",
    at_s: float = START_S,
    labels: Mapping[str, str] | None = None,
    signals: Mapping[str, Measured] | None = None,
    targets: tuple[tuple[str, int], ...] = (),
) -> Publication:
    """One service's latest decision."""
    return Publication(
        namespace=namespace,
        name=name,
        at_s=at_s,
        stale_after_s=30.0,
        desired_replicas=desired,
        targets=targets,
        labels=tuple((labels or {}).items()),
        signals=tuple((signals or {}).items()),
    )


class Shelf:
    """Publications in memory."""

    def __init__(self, publications: Iterable[Publication] = ()) -> None:
        self.known = True
        self._by_name: dict[tuple[str, str], Publication] = {}
        for each in publications:
            self.put(each)

    def put(self, publication: Publication) -> None:
        self._by_name[publication.namespace, publication.name] = publication

    def of(self, namespace: str, name: str) -> Publication | None:
        self._check()
        return self._by_name.get((namespace, name))

    def within(self, namespace: str) -> Sequence[Publication]:
        self._check()
        return [each for (there, _), each in sorted(self._by_name.items()) if there == namespace]

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    def _check(self) -> None:
        if not self.known:
            raise UnavailableError("no list of InferenceAutoscalers came yet")


@dataclass
class Cluster:
    """What the API server says: of tokens, by audience, and of who may read; ``down`` names what gives no answer."""

    tokens: dict[tuple[str, str], User] = field(default_factory=dict)
    readers: set[str] = field(default_factory=lambda: {HPA, "monitor"})
    down: set[str] = field(default_factory=set)
    asked: list[tuple[str, object]] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    def token_review(self, token: str, audiences: tuple[str, ...]) -> User | TokenRefused:
        self._ask("token", token)
        owners = [self.tokens[token, audience] for audience in audiences if (token, audience) in self.tokens]
        return owners[0] if owners else TokenRefused(reason="it is no valid token of this cluster")

    def subject_access_review(self, user: User, access: Access) -> Verdict:
        self._ask("access", (user, access))
        return Verdict(allowed=user.name in self.readers, reason="" if user.name in self.readers else "no role")

    def _ask(self, kind: str, question: object) -> None:
        self.asked.append((kind, question))
        if not self.gate.wait(timeout=30):
            raise UnavailableError("the gate stayed shut")
        if kind in self.down:
            raise UnavailableError("connection refused")


@dataclass(frozen=True)
class Reply:
    """An answer, its body read."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        return str(self.document["message"])


@dataclass
class Scene:
    """The server and all around it."""

    folder: Path
    ca: Pair = field(default_factory=lambda: authority("cluster-ca"))
    proxy_ca: Pair = field(default_factory=lambda: authority("front-proxy-ca"))
    foreign_ca: Pair = field(default_factory=lambda: authority("somebody-else"))
    shelf: Shelf = field(default_factory=Shelf)
    cluster: Cluster = field(default_factory=Cluster)
    now_s: float = START_S
    most: int = 1024
    prove_within_s: float = 10.0
    files: int = 0

    def __post_init__(self) -> None:
        self.certificate_file, self.key_file = self.serving_pair().write(self.folder, "serving")
        self.server = ExternalMetricsServer(
            ExternalMetricsSettings(
                host="127.0.0.1",
                port=0,
                certificate_file=self.certificate_file,
                key_file=self.key_file,
                audiences=(AUDIENCE,),
                max_connections=self.most,
            ),
            self.shelf,
            self.cluster,
            now_s=lambda: self.now_s,
            read_files_every_s=0.05,
            prove_within_s=self.prove_within_s,
        )
        self.proxy = issue(self.proxy_ca, "front-proxy-client")

    def serving_pair(self) -> Pair:
        return issue(self.ca, "", use=SERVER, hosts=("localhost", "gpu-autoscaler.gpu-as.svc"))

    def trust(
        self, *, ca: Pair | None = None, proxy_ca: Pair | None = None, names: tuple[str, ...] = ("front-proxy-client",)
    ) -> CallerTrust:
        """The cluster's, parts of it replaced."""
        return CallerTrust(
            client_ca_pem=(ca or self.ca).pem,
            front_proxy_ca_pem=(proxy_ca or self.proxy_ca).pem,
            front_proxy_names=names,
        )

    def tls(self, pair: Pair | None = None) -> ssl.SSLContext:
        """A client's, with a certificate or without."""
        context = ssl.create_default_context(cadata=self.ca.pem)
        if pair is not None:
            self.files += 1
            context.load_cert_chain(*pair.write(self.folder, f"client-{self.files}"))
        return context

    @contextmanager
    def connected(self, pair: Pair | None = None) -> Iterator[http.client.HTTPSConnection]:
        """A connection that is kept."""
        connection = http.client.HTTPSConnection("localhost", self.server.port, context=self.tls(pair), timeout=10)
        try:
            yield connection
        finally:
            connection.close()

    def ask(self, path: str, *, pair: Pair | None = None, headers: Headers = (), method: str = "GET") -> Reply:
        """One request on a connection of its own."""
        with self.connected(pair) as connection:
            return ask_on(connection, path, headers=headers, method=method)

    def as_proxy(
        self, path: str, *, user: str = HPA, groups: tuple[str, ...] = (), headers: Headers = (), method: str = "GET"
    ) -> Reply:
        """As kube-apiserver hands on a request."""
        return self.ask(path, pair=self.proxy, headers=(*named(user, *groups), *headers), method=method)

    def metric(
        self, metric: str = "desired_replicas", *, selector: str | None = None, namespace: str = "prod"
    ) -> Reply:
        """As the HPA reads it."""
        query = "" if selector is None else f"?labelSelector={selector}"
        return self.as_proxy(f"{API}/namespaces/{namespace}/{metric}{query}")


def ask_on(connection: http.client.HTTPSConnection, path: str, *, headers: Headers = (), method: str = "GET") -> Reply:
    """One request on a connection that is kept."""
    connection.putrequest(method, path)
    for name, value in headers:
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())


def named(user: str, *groups: str) -> list[tuple[str, str]]:
    """The headers by which the front proxy names a user."""
    return [("X-Remote-User", user), *(("X-Remote-Group", group) for group in groups)]


def bearer(token: str) -> list[tuple[str, str]]:
    """The header of a token."""
    return [("Authorization", f"Bearer {token}")]
