"""The key prometheus: what it comes to, and what it may not say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.prometheus.settings import HistorySettings, PrometheusSettings, Secret, TlsSettings
from autoscaler.config import Settings, load


def section(read: Callable[[str], Settings], keys: str) -> PrometheusSettings:
    found = read(f"kubernetes: {{}}\nprometheus: {{url: 'https://p.example/x', {keys}}}\n").prometheus
    assert found is not None
    return found


def test_without_it_pages_are_fetched_directly(read: Callable[[str], Settings], service_text: str) -> None:
    assert read(service_text).prometheus is None


def test_an_address_is_enough(read: Callable[[str], Settings], service_text: str) -> None:
    settings = read(f"{service_text}prometheus: {{url: 'http://p:9090/'}}\n")
    assert settings.prometheus == PrometheusSettings(url="http://p:9090/")


def test_all_of_it_is_taken_over(write: Callable[[str], Path]) -> None:
    path = write(
        """
        kubernetes: {}
        prometheus:
          url: https://mimir.example/prometheus
          bearerTokenFile: token
          tenant: team-a
          headers: {THANOS-TENANT: b}
          tls: {caFile: /ca.crt, certificateFile: a.crt, keyFile: a.key, serverName: inner}
          matchers: {cluster: prod}
          replicaLabels: [replica]
          maxAge: 1m
          timeout: 2s
          maxConnections: 2
          replicasPerQuery: 10
          history: {period: 1d, step: 2m}
        """
    )
    settings, folder = load(path), path.parent
    assert settings.prometheus == PrometheusSettings(
        url="https://mimir.example/prometheus",
        bearer_token=Secret(file=folder / "token"),
        headers={"THANOS-TENANT": "b", "X-Scope-OrgID": "team-a"},
        tls=TlsSettings(
            ca_file=Path("/ca.crt"),
            certificate_file=folder / "a.crt",
            key_file=folder / "a.key",
            server_name="inner",
        ),
        matchers={"cluster": "prod"},
        replica_labels=("replica",),
        max_age_s=60.0,
        timeout_s=2.0,
        max_connections=2,
        replicas_per_query=10,
        history=HistorySettings(period_s=86400.0, step_s=120.0),
    )


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        pytest.param("basicAuth: {username: u, password: p}", ("u", "p", None), id="password"),
        pytest.param("basicAuth: {username: u, passwordEnv: PROM_SECRET}", ("u", "from env", None), id="its variable"),
        pytest.param("basicAuth: {username: u}", ("u", None, None), id="none"),
        pytest.param("bearerToken: t", (None, None, "t"), id="token"),
        pytest.param("bearerTokenEnv: PROM_SECRET", (None, None, "from env"), id="its variable, token"),
    ],
)
def test_credentials(
    read: Callable[[str], Settings],
    monkeypatch: pytest.MonkeyPatch,
    keys: str,
    expected: tuple[str | None, ...],
) -> None:
    monkeypatch.setenv("PROM_SECRET", "from env")
    found = section(read, keys)
    given = [found.username, found.password, found.bearer_token]
    assert tuple(each.value if each else None for each in given) == expected


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param("bearerToken: hush-hush", id="token"),
        pytest.param("basicAuth: {username: u, password: hush-hush}", id="password"),
        pytest.param("headers: {X-Key: hush-hush}", id="header"),
    ],
)
def test_a_secret_is_shown_nowhere(read: Callable[[str], Settings], keys: str) -> None:
    settings = read(f"kubernetes: {{}}\nprometheus: {{url: 'https://p', {keys}}}\n")
    assert "hush-hush" not in settings.effective + repr(settings)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        pytest.param("url: p:9090", "prometheus.url: must be an http:// or https:// address", id="no scheme"),
        pytest.param("url: 'http://u:p@p'", "prometheus.url: must be an http:// or https:// address", id="a password"),
        pytest.param("maxAge: 1s", "prometheus: url is missing", id="no address"),
        pytest.param("maxAge: 10m", "prometheus.maxAge: must be", id="older than what Prometheus shows"),
        pytest.param("maxConnections: 0", "prometheus.maxConnections: must be", id="no connection"),
        pytest.param("matchers: {a-b: c}", "prometheus.matchers", id="no label"),
        pytest.param("headers: {Authorization: x}", "prometheus.headers: Authorization is written by", id="header"),
        pytest.param("tenant: a, headers: {x-scope-orgid: b}", "prometheus.tenant: given twice", id="two tenants"),
        pytest.param(
            "bearerToken: a, bearerTokenFile: b",
            "prometheus.bearerTokenFile: the token is given twice: bearerToken and bearerTokenFile",
            id="two tokens",
        ),
        pytest.param(
            "basicAuth: {username: a, password: b, passwordFile: c}",
            "prometheus.basicAuth.passwordFile: the password is given twice: password and passwordFile",
            id="two passwords",
        ),
        pytest.param("bearerToken: a, basicAuth: {username: b}", "prometheus.basicAuth: beside", id="both"),
        pytest.param(
            "bearerTokenEnv: NOT_SET_ANYWHERE",
            "prometheus.bearerTokenEnv: the environment variable NOT_SET_ANYWHERE is not set",
            id="no variable",
        ),
        pytest.param("tls: {certificateFile: a}", "prometheus.tls: certificateFile and keyFile", id="no key"),
        pytest.param(
            "tls: {caFile: a, insecureSkipVerify: true}", "prometheus.tls.insecureSkipVerify: true beside", id="unused"
        ),
        pytest.param("url: 'http://p', tls: {caFile: a}", "prometheus.tls: has no meaning with", id="TLS without"),
    ],
)
def test_mistakes_are_named(problems: Callable[[str], list[str]], keys: str, expected: str) -> None:
    given = keys if "url:" in keys or expected.endswith("is missing") else f"url: 'https://p', {keys}"
    told = problems(f"kubernetes: {{}}\nprometheus: {{{given}}}\n")
    assert len(told) == 1, told
    assert expected in told[0]
