"""Rules of the key ``prometheus``, and its settings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from adapters.prometheus.settings import TENANT_HEADER, HistorySettings, PrometheusSettings, Secret, TlsSettings
from autoscaler.config.command import HIDDEN
from autoscaler.config.kubernetes_rules import resolve_path
from autoscaler.config.prometheus_schema import PrometheusSection, PrometheusTlsSection
from autoscaler.config.scaling_rules import Finding

_BASE = ("prometheus",)


def prometheus_findings(section: PrometheusSection | None) -> Iterator[Finding]:
    """What is wrong within the section."""
    if section is None:
        return
    token = {
        "bearerToken": section.bearer_token,
        "bearerTokenFile": section.bearer_token_file,
        "bearerTokenEnv": section.bearer_token_env,
    }
    yield from _given_once(token, _BASE, "the token")
    basic = section.basic_auth
    if basic is not None:
        password = {
            "password": basic.password,
            "passwordFile": basic.password_file,
            "passwordEnv": basic.password_env,
        }
        yield from _given_once(password, (*_BASE, "basicAuth"), "the password")
        if any(value is not None for value in token.values()):
            yield (*_BASE, "basicAuth"), "beside a bearer token; one header carries one of them"
    tls = section.tls
    if (tls.certificate_file is None) != (tls.key_file is None):
        yield (*_BASE, "tls"), "certificateFile and keyFile belong together"
    if tls.insecure_skip_verify and (tls.ca_file is not None or tls.server_name is not None):
        yield (*_BASE, "tls", "insecureSkipVerify"), "true beside caFile or serverName, which it would leave unused"
    if tls != PrometheusTlsSection() and section.url.startswith("http://"):
        yield (*_BASE, "tls"), "has no meaning with an http:// url"
    named = {name.lower() for name in section.headers}
    if section.tenant is not None and TENANT_HEADER.lower() in named:
        yield (*_BASE, "tenant"), f"given twice: here and as {TENANT_HEADER} of headers"
    if "authorization" in named:
        yield (*_BASE, "headers"), "Authorization is written by basicAuth or bearerToken"


def prometheus_settings(section: PrometheusSection, folder: Path) -> PrometheusSettings:
    """The settings of a section without problems; relative paths start at ``folder``."""
    basic = section.basic_auth
    headers = dict(section.headers)
    if section.tenant is not None:
        headers[TENANT_HEADER] = section.tenant
    return PrometheusSettings(
        url=section.url,
        username=None if basic is None else Secret(value=basic.username),
        password=None if basic is None else _secret(basic.password, basic.password_file, basic.password_env, folder),
        bearer_token=_secret(section.bearer_token, section.bearer_token_file, section.bearer_token_env, folder),
        headers=headers,
        tls=TlsSettings(
            ca_file=resolve_path(section.tls.ca_file, folder),
            certificate_file=resolve_path(section.tls.certificate_file, folder),
            key_file=resolve_path(section.tls.key_file, folder),
            server_name=section.tls.server_name,
            verify=not section.tls.insecure_skip_verify,
        ),
        matchers=section.matchers,
        replica_labels=tuple(section.replica_labels),
        max_age_s=section.max_age,
        timeout_s=section.timeout,
        max_connections=section.max_connections,
        replicas_per_query=section.replicas_per_query,
        history=HistorySettings(period_s=section.history.period, step_s=section.history.step),
    )


def hide_secrets(plain: dict[str, Any]) -> None:
    """In the section as plain values."""
    if plain["bearerToken"] is not None:
        plain["bearerToken"] = HIDDEN
    if plain["basicAuth"] is not None and plain["basicAuth"]["password"] is not None:
        plain["basicAuth"]["password"] = HIDDEN
    plain["headers"] = dict.fromkeys(plain["headers"], HIDDEN)


def _given_once(sources: Mapping[str, str | None], base: tuple[str, ...], what: str) -> Iterator[Finding]:
    given = [key for key, value in sources.items() if value is not None]
    if len(given) > 1:
        yield (*base, given[1]), f"{what} is given twice: {' and '.join(given)}"
    for key in given:
        name = sources[key]
        if key.endswith("Env") and name is not None and name not in os.environ:
            yield (*base, key), f"the environment variable {name} is not set"


def _secret(value: str | None, file: str | None, env: str | None, folder: Path) -> Secret | None:
    if file is not None:
        return Secret(file=resolve_path(file, folder))
    given = os.environ.get(env) if env is not None else value
    return None if given is None else Secret(value=given)
