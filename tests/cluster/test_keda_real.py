"""A real KEDA does as the external scaler says, through the objects that ``gpu-autoscaler manifests keda`` prints.

The pods of the scaled Deployments find no node: what counts here is how many are asked for.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from adapters.serving.api import create_app
from adapters.serving.auth import ApiSettings
from adapters.serving.keda.credentials import TlsFiles
from adapters.serving.keda.server import ScalerServer, ScalerSettings
from adapters.serving.server import ApiServer
from adapters.serving.store import DecisionBoard
from autoscaler.domain.reading import Unknown, UnknownReason
from autoscaler.domain.resource import TargetRef, VariantSource
from autoscaler.manifests import KedaOptions, KubernetesVersion, ScaledService, ScalerTls, TriggerType, keda_manifests
from tests.cluster.processes import wait_for
from tests.cluster.running import Cluster
from tests.cluster.workloads import deployment, pod_template
from tests.keda.notes import NOW_S, Notes

pytestmark = pytest.mark.cluster

TIMEOUT = Unknown(UnknownReason.TIMEOUT, "no answer from 4 of 4 replicas")
VERSION = KubernetesVersion(1, 36)


@pytest.fixture(scope="module")
def keda(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with KEDA as the owner of external metrics."""
    with cluster.keda_serving():
        yield cluster


@dataclass
class Bench:
    """A namespace with Deployments, and a scaler whose time stands still until it is moved."""

    cluster: Cluster
    namespace: str
    notes: Notes = field(default_factory=Notes)
    at_s: float = NOW_S

    def now_s(self) -> float:
        return self.at_s

    def publish(self, desired: int | Unknown, **targets: int) -> None:
        self.notes.publish(desired, namespace=self.namespace, name="chat", targets=targets, at_s=self.at_s)

    def deploy(self, *names: str, replicas: int = 1) -> None:
        made = [
            deployment(name, replicas=replicas, template=pod_template(name, spec={"nodeSelector": {"no-such": "node"}}))
            for name in names
        ]
        self.cluster.apply(made, namespace=self.namespace)

    def service(self, *names: str, min_replicas: int = 0) -> ScaledService:
        return ScaledService(
            namespace=self.namespace,
            name="chat",
            min_replicas=min_replicas,
            max_replicas=40,
            sources=tuple(
                VariantSource(variant=name, target=TargetRef(api_version="apps/v1", kind="Deployment", name=name))
                for name in names
            ),
        )

    def follow(self, service: ScaledService, options: KedaOptions) -> None:
        """Hand it over to KEDA."""
        self.cluster.apply(keda_manifests(service, options, kubernetes=VERSION))

    def ready_message(self) -> str:
        """What the ScaledObject says of itself."""
        path = f"/apis/keda.sh/v1alpha1/namespaces/{self.namespace}/scaledobjects/chat"
        conditions = (self.cluster.api.find(path) or {}).get("status", {}).get("conditions") or []
        return next((str(each.get("message")) for each in conditions if each["type"] == "Ready"), "")

    def replicas(self, name: str) -> int:
        found = self.cluster.api.get(f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{name}")
        asked: int = found["spec"]["replicas"]
        return asked

    def await_replicas(self, count: int, *, name: str = "chat", within_s: float = 60.0) -> None:
        wait_for(lambda: self.replicas(name) == count, f"{name} is asked for {count} replicas", within_s=within_s)

    def failures(self) -> str:
        """What KEDA has told of failed reads."""
        events = self.cluster.events(self.namespace)
        return "\n".join(str(each["message"]) for each in events if each["reason"] == "KEDAScalerFailed")

    def hpa_condition(self, name: str = "chat") -> dict[str, Any]:
        path = f"/apis/autoscaling/v2/namespaces/{self.namespace}/horizontalpodautoscalers/keda-hpa-{name}"
        hpa = self.cluster.api.find(path) or {}
        conditions = hpa.get("status", {}).get("conditions", [])
        return next((dict(each) for each in conditions if each["type"] == "ScalingActive"), {})


@pytest.fixture
def bench(keda: Cluster) -> Iterator[Bench]:
    with keda.namespace() as name:
        yield Bench(keda, name)


@pytest.fixture
def scaler(bench: Bench) -> Iterator[ScalerServer]:
    server = ScalerServer(bench.notes, ScalerSettings(port=0), now_s=bench.now_s)
    server.start()
    yield server
    server.stop()


def address(server: ScalerServer) -> str:
    return f"localhost:{server.port}"


@pytest.mark.parametrize("trigger", list(TriggerType))
def test_each_number_is_followed_to_the_replica(bench: Bench, scaler: ScalerServer, trigger: TriggerType) -> None:
    bench.deploy("chat")
    bench.publish(2)
    bench.follow(bench.service("chat"), KedaOptions(trigger=trigger, scaler_address=address(scaler)))
    for desired in (4, 7, 21, 22, 21, 3, 40, 1):
        bench.publish(desired)
        bench.await_replicas(desired)


def test_what_is_stale_or_unknown_holds_the_replicas_and_says_why(bench: Bench, scaler: ScalerServer) -> None:
    bench.deploy("chat")
    bench.publish(6)
    bench.follow(bench.service("chat"), KedaOptions(scaler_address=address(scaler)))
    bench.await_replicas(6)
    bench.at_s += 60.0
    wait_for(lambda: bench.hpa_condition().get("status") == "False", "the HPA is told of an error")
    wait_for(lambda: "counts as stale" in bench.failures(), "KEDA tells what the scaler said")
    assert bench.replicas("chat") == 6
    bench.publish(TIMEOUT)
    wait_for(lambda: TIMEOUT.detail in bench.failures(), "KEDA tells why the number is not known")
    assert bench.replicas("chat") == 6
    bench.publish(9)
    bench.await_replicas(9)


def test_zero_is_left_at_once_by_a_push_and_unknown_does_not_leave_it(bench: Bench, scaler: ScalerServer) -> None:
    bench.deploy("chat")
    bench.publish(1)
    options = KedaOptions(scaler_address=address(scaler))
    (manifest,) = yaml.safe_load_all(keda_manifests(bench.service("chat"), options, kubernetes=VERSION))
    manifest["spec"]["pollingInterval"] = 5
    bench.cluster.apply([manifest])
    wait_for(lambda: bench.hpa_condition().get("status") == "True", "the HPA reads the number")
    bench.publish(0)
    bench.await_replicas(0)
    bench.publish(TIMEOUT)
    wait_for(lambda: TIMEOUT.detail in bench.failures(), "KEDA is told of an error while at zero")
    assert bench.replicas("chat") == 0
    bench.publish(0)
    manifest["spec"]["pollingInterval"] = 3600
    before = bench.notes.reads
    bench.cluster.apply([manifest])
    # The poll that begins an hour's wait takes two reads, the stream that is opened beside it a third.
    wait_for(lambda: bench.notes.reads >= before + 3, "KEDA has polled for the last time, and listens")
    assert bench.replicas("chat") == 0
    bench.publish(3)
    bench.await_replicas(3)


def test_each_variant_follows_its_own_number(bench: Bench, scaler: ScalerServer) -> None:
    bench.deploy("full", "slice")
    bench.publish(5, full=5, slice=0)
    bench.follow(bench.service("full", "slice", min_replicas=1), KedaOptions(scaler_address=address(scaler)))
    bench.await_replicas(5, name="full")
    bench.await_replicas(0, name="slice")
    bench.publish(9, full=2, slice=7)
    bench.await_replicas(2, name="full")
    bench.await_replicas(7, name="slice")


def test_a_scaler_that_is_restarted_is_found_again_and_nothing_moves_meanwhile(bench: Bench) -> None:
    first = ScalerServer(bench.notes, ScalerSettings(port=0), now_s=bench.now_s)
    first.start()
    settings = ScalerSettings(port=first.port)
    bench.deploy("chat")
    bench.publish(6)
    bench.follow(bench.service("chat"), KedaOptions(scaler_address=address(first)))
    bench.await_replicas(6)
    first.stop()
    wait_for(lambda: bench.hpa_condition().get("status") == "False", "the HPA misses the scaler")
    assert bench.replicas("chat") == 6
    second = ScalerServer(bench.notes, settings, now_s=bench.now_s)
    second.start()
    try:
        bench.publish(8)
        bench.await_replicas(8, within_s=120.0)
    finally:
        second.stop()


@pytest.mark.parametrize("mutual", [pytest.param(False, id="server"), pytest.param(True, id="both sides")])
def test_tls(bench: Bench, *, mutual: bool) -> None:
    with secured(bench, mutual=mutual) as server:
        bench.deploy("chat")
        bench.publish(4)
        tls = ScalerTls(secret="scaler-tls", client_certificate=mutual)
        bench.follow(bench.service("chat"), KedaOptions(scaler_address=address(server), tls=tls))
        bench.await_replicas(4)


def test_keda_without_a_certificate_is_refused_where_one_is_asked_for(bench: Bench) -> None:
    with secured(bench, mutual=True) as server:
        bench.deploy("chat")
        bench.publish(4)
        tls = ScalerTls(secret="scaler-tls", client_certificate=False)
        bench.follow(bench.service("chat"), KedaOptions(scaler_address=address(server), tls=tls))
        wait_for(lambda: "no metric specs" in bench.ready_message(), "KEDA gets no answer")
        assert bench.replicas("chat") == 1


@contextmanager
def secured(bench: Bench, *, mutual: bool) -> Iterator[ScalerServer]:
    """A scaler with TLS; the Secret ``scaler-tls`` holds its authority, and a certificate for KEDA."""
    authority = bench.cluster.certificates.ca
    served = authority.issue("external-scaler", hosts=("localhost",))
    shown = authority.issue("keda-as-client")
    parts = {"ca.crt": authority.certificate, "tls.crt": shown.certificate, "tls.key": shown.key}
    data = {name: base64.b64encode(file.read_bytes()).decode() for name, file in parts.items()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "scaler-tls"}, "data": data}
    bench.cluster.apply([secret], namespace=bench.namespace)
    files = TlsFiles(
        certificate=served.certificate, key=served.key, client_ca=authority.certificate if mutual else None
    )
    server = ScalerServer(bench.notes, ScalerSettings(port=0, tls=files), now_s=bench.now_s)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def test_keda_reads_the_number_as_json_too(bench: Bench) -> None:
    board, settings = DecisionBoard(services=(), stale_after_s=15.0), ApiSettings(port=0)
    api = create_app(
        board=board, history=board, settings=settings, now_s=bench.now_s, version="1.2.3", publications=bench.notes
    )
    server = ApiServer(api, settings)
    server.start()
    try:
        bench.deploy("chat")
        bench.publish(4)
        (manifest,) = yaml.safe_load_all(keda_manifests(bench.service("chat"), KedaOptions(), kubernetes=VERSION))
        url = f"http://localhost:{server.port}/v1/targets/{bench.namespace}/chat"
        metadata = {"url": url, "valueLocation": "value", "targetValue": "1"}
        manifest["spec"]["triggers"] = [{"type": "metrics-api", "metadata": metadata}]
        bench.cluster.apply([manifest])
        for desired in (4, 21, 22, 3):
            bench.publish(desired)
            bench.await_replicas(desired)
        bench.publish(TIMEOUT)
        wait_for(lambda: bench.hpa_condition().get("status") == "False", "the HPA is told of an error")
        assert bench.replicas("chat") == 3
    finally:
        server.stop()
