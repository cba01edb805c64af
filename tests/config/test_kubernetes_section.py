"""A file for a cluster: how it is read, and what it may not say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autoscaler.config import Settings, load


def test_an_empty_mapping_is_enough(read: Callable[[str], Settings]) -> None:
    settings = read("kubernetes: {}\n")
    assert [*settings.services, *settings.templates, *settings.routes] == []
    kubernetes = settings.kubernetes
    assert kubernetes is not None
    assert kubernetes.namespaces == ()
    assert kubernetes.election is not None
    assert kubernetes.election.retry_s < kubernetes.election.renew_s < kubernetes.election.lease_s
    assert (kubernetes.external_metrics, kubernetes.external_scaler) == (None, None)


def test_without_it_there_are_services(read: Callable[[str], Settings], service_text: str) -> None:
    assert read(service_text).kubernetes is None


def test_all_of_it_is_taken_over(write: Callable[[str], Path]) -> None:
    path = write(
        """
        kubernetes:
          namespaces: [llm, batch]
          kubeconfig: cluster.conf
          context: test
          leaderElection: {leaseName: ours, namespace: system, leaseDurationSeconds: 12, renewDeadline: 8s}
          externalMetrics: {enabled: true, port: 7443, certificateFile: /tls/tls.crt, keyFile: tls.key, audiences: [us]}
          externalScaler: {enabled: true, host: "::", certificateFile: a, keyFile: b, clientCaFile: c}
          scrape: {maxConnections: 8, timeout: 500ms}
          gateway: {host: "::", port: 80, metricsPort: 81, maxBody: 1MiB, gracePeriod: 5m}
        intervalSeconds: 5
        """
    )
    settings = load(path)
    kubernetes = settings.kubernetes
    assert kubernetes is not None
    assert kubernetes.namespaces == ("llm", "batch")
    assert (kubernetes.kubeconfig, kubernetes.context) == (path.parent / "cluster.conf", "test")
    election, metrics, scaler = kubernetes.election, kubernetes.external_metrics, kubernetes.external_scaler
    assert election is not None
    assert (election.lease_name, election.namespace, election.lease_s, election.renew_s) == ("ours", "system", 12, 8.0)
    assert metrics is not None
    assert (metrics.port, metrics.audiences) == (7443, ("us",))
    assert (metrics.certificate_file, metrics.key_file) == (Path("/tls/tls.crt"), path.parent / "tls.key")
    assert scaler is not None
    assert (scaler.host, scaler.client_ca_file) == ("::", path.parent / "c")
    assert (kubernetes.scrape.max_connections, kubernetes.scrape.timeout_s) == (8, 0.5)
    gateway = kubernetes.gateway
    assert (gateway.host, gateway.port, gateway.metrics_host, gateway.metrics_port) == ("::", 80, "0.0.0.0", 81)
    assert (gateway.max_body_bytes, gateway.grace_s) == (2**20, 300.0)
    assert settings.params.interval_s == 5.0


@pytest.mark.parametrize("text", ["leaderElection: {enabled: false}", "externalScaler: {enabled: false, port: 0}"])
def test_what_is_off_is_none(read: Callable[[str], Settings], text: str) -> None:
    kubernetes = read(f"kubernetes: {{{text}}}").kubernetes
    assert kubernetes is not None
    assert (kubernetes.election is None) is ("leaderElection" in text)
    assert kubernetes.external_scaler is None


def test_the_effective_file_means_the_same(read: Callable[[str], Settings], write: Callable[[str], Path]) -> None:
    settings = read("kubernetes: {namespaces: [llm], externalScaler: {enabled: true}}\napi: {port: 0}\n")
    assert load(write(settings.effective)) == settings


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            "services: [{name: a, slo: {e2e: 1}, command: 'x {port}'}]\nkubernetes: {}",
            "1:11 services: has no meaning beside kubernetes: services are InferenceAutoscaler resources there",
            id="services beside it",
        ),
        pytest.param(
            "kubernetes: {}\ngateway: {port: 1}",
            "2:10 gateway: has no meaning beside kubernetes; leave it out",
            id="the local gateway",
        ),
        pytest.param(
            "kubernetes: {}\ninventory: {}",
            "2:12 inventory: has no meaning beside kubernetes; leave it out",
            id="the local inventory",
        ),
        pytest.param(
            "kubernetes: {}\nstopReplicasOnExit: false",
            "2:21 stopReplicasOnExit: has no meaning beside kubernetes; leave it out",
            id="local replicas",
        ),
        pytest.param(
            "kubernetes: {leaderElection: {renewDeadline: 10s}}",
            "1:46 kubernetes.leaderElection.renewDeadline: must be less than leaseDurationSeconds 10, so that a leader "
            "steps down before another leads; got 10s",
            id="two leaders",
        ),
        pytest.param(
            "kubernetes: {leaderElection: {retryPeriod: 7s}}",
            "1:44 kubernetes.leaderElection.retryPeriod: must be less than renewDeadline 7s; got 7s",
            id="too few tries",
        ),
        pytest.param(
            "kubernetes: {externalMetrics: {enabled: true}}",
            "1:31 kubernetes.externalMetrics: needs certificateFile and keyFile: the API server speaks TLS alone to it",
            id="metrics in plain text",
        ),
        pytest.param(
            "kubernetes: {externalScaler: {certificateFile: a}}",
            "1:30 kubernetes.externalScaler: certificateFile and keyFile belong together",
            id="half a certificate",
        ),
        pytest.param(
            "kubernetes: {externalScaler: {clientCaFile: a}}",
            "1:45 kubernetes.externalScaler.clientCaFile: clients can show a certificate over TLS alone; give "
            "certificateFile and keyFile",
            id="client certificates in plain text",
        ),
        pytest.param(
            "kubernetes: {externalScaler: {enabled: true}}\napi: {port: 9090}",
            "1:30 kubernetes.externalScaler.port: 9090 is the port of the api too; one of them has to move",
            id="one port for two",
        ),
        pytest.param(
            "kubernetes: {gateway: {metricsPort: 8080}}",
            "1:37 kubernetes.gateway.metricsPort: 8080 is the port for clients too; one of them has to move",
            id="clients would see the gateway's own pages",
        ),
        pytest.param(
            "kubernetes: {namespaces: [a, b, a]}",
            "1:33 kubernetes.namespaces[2]: a is listed above",
            id="a namespace twice",
        ),
        pytest.param(
            "kubernetes: {leaderElections: {}}",
            "1:14 kubernetes.leaderElections: unknown key; did you mean leaderElection?",
            id="misspelt",
        ),
        pytest.param("api: {port: 0}", "1:1 services is missing: a list of 1 to 10000 entries", id="neither"),
    ],
)
def test_one_mistake(problems: Callable[[str], list[str]], text: str, problem: str) -> None:
    assert problems(text) == [problem]


def test_a_wrong_value_hides_no_other_mistake(problems: Callable[[str], list[str]]) -> None:
    told = problems("kubernetes: {}\napi: {port: -1}\ngateway: {}\n")
    assert [line.split(": ")[0] for line in told] == ["2:13 api.port", "3:10 gateway"]
