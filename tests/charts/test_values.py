"""values.yaml, its schema and its documentation agree with one another and with the program's own configuration."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import pytest
import yaml

from autoscaler.config import json_schema
from autoscaler.config.kubernetes_schema import KubernetesSection
from autoscaler.config.units import parse_duration
from tests.charts.values_table import CHART, rows, with_table

SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
TEXT = (CHART / "values.yaml").read_text(encoding="utf-8")
VALUES: dict[str, Any] = yaml.safe_load(TEXT)
# Mappings whose keys are the user's, and the parts of an affinity, which the API server checks itself.
FREE = {"labels", "annotations", "quantities", "ofKubernetes", "global"}


def changed(path: str, value: object) -> dict[str, Any]:
    """The defaults with one value changed."""
    values = copy.deepcopy(VALUES)
    *parents, last = path.split(".")
    place = values
    for parent in parents:
        place = place[parent]
    place[last] = value
    return values


def problems(values: Mapping[str, Any]) -> list[str]:
    return [each.message for each in jsonschema.Draft7Validator(SCHEMA).iter_errors(values)]


def test_the_schema_is_one() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_the_defaults_are_allowed() -> None:
    assert problems(VALUES) == []


def _objects(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield path, schema
        for key, value in schema.items():
            yield from _objects(value, f"{path}.{key}")
    elif isinstance(schema, list):
        for index, value in enumerate(schema):
            yield from _objects(value, f"{path}.{index}")


def test_every_mapping_is_closed() -> None:
    open_ones = {
        path.rpartition(".")[2] for path, each in _objects(SCHEMA) if each.get("additionalProperties") is not False
    }
    assert open_ones == FREE


def test_every_value_has_a_schema_and_every_schema_a_value() -> None:
    def keys(schema: Mapping[str, Any], values: Mapping[str, Any], path: str) -> Iterator[str]:
        if "$ref" in schema:
            schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
        known = schema.get("properties")
        if known is None:
            return
        # Optional keys: those of the program's configuration, those of Kubernetes', what umbrella charts share.
        optional = path in ("forecast", "retention", "affinity") or path == ""
        missing = set(known) - set(values) - ({"global"} if optional and path == "" else set())
        if path not in ("forecast", "retention", "affinity"):
            yield from (f"{path}.{name} has no value" for name in missing)
        yield from (f"{path}.{name} has no schema" for name in set(values) - set(known))
        for name, value in values.items():
            if isinstance(value, dict) and name in known:
                yield from keys(known[name], value, f"{path}.{name}".lstrip("."))

    assert list(keys(SCHEMA, VALUES, "")) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("replicas", 3, id="a key that is not known"),
        pytest.param("image.version", "1", id="one within"),
        pytest.param("externalMetrics.apiService.created", True, id="one deeper"),
        pytest.param("mode", "scale", id="mode in small letters"),
        pytest.param("replicaCount", 11, id="too many replicas"),
        pytest.param("replicaCount", "2", id="a number as text"),
        pytest.param("api.port", 80, id="a port that needs root"),
        pytest.param("externalMetrics.port", 65536, id="no port"),
        pytest.param("externalMetrics.apiService.versionPriority", 1001, id="priority"),
        pytest.param("externalMetrics.apiService.groupPriorityMinimum", 0, id="group priority"),
        pytest.param("namespaces", ["A"], id="no namespace"),
        pytest.param("namespaces", ["a", "a"], id="one namespace twice"),
        pytest.param("targets.custom", [{"group": "", "resource": "pods"}], id="a core kind as custom"),
        pytest.param("targets.custom", [{"group": "*.*", "resource": "fleets"}], id="all groups"),
        pytest.param("targets.custom", [{"group": "example.com", "resource": "*"}], id="all kinds"),
        pytest.param("certificates.source", "self-signed", id="certificates"),
        pytest.param("certificates.selfSigned.validityDays", 1, id="a certificate of a day"),
        pytest.param("certificates.secret.caBundle", "bm90IFBFTQ==", id="Base64 in place of PEM"),
        pytest.param("image.digest", "sha256:12", id="half a digest"),
        pytest.param("intervalSeconds", 0, id="no interval"),
        pytest.param("forecast", {"quantile": 1.0}, id="quantile"),
        pytest.param("retention", {"maxsize": "1GiB"}, id="retention"),
        pytest.param("leaderElection.leaseDurationSeconds", 61, id="lease"),
        pytest.param("scrape.maxConnections", 0, id="no connection"),
        pytest.param("state.kind", "hostPath", id="state"),
        pytest.param("nodeSelector", {"gpu": True}, id="a label that is no text"),
        pytest.param("tolerations", [{"key": "a", "effect": "Never"}], id="toleration"),
        pytest.param("networkPolicy.kedaFrom", [], id="an empty list lets everybody in"),
        pytest.param("networkPolicy.apiServerCidrs", ["10.0.0.1"], id="no CIDR"),
        pytest.param("podDisruptionBudget.minAvailable", 0, id="a budget of nothing"),
        pytest.param("resources.limits", {"memory": "lots"}, id="no quantity"),
        pytest.param("fullnameOverride", "9to5", id="no name of a Service"),
    ],
)
def test_what_is_wrong_is_refused(path: str, value: object) -> None:
    assert len(problems(changed(path, value))) == 1


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("intervalSeconds", 2.5, id="interval"),
        pytest.param("namespaces", ["chat", "search"], id="namespaces"),
        pytest.param("targets.custom", [{"group": "example.com", "resource": "fleets"}], id="a custom kind"),
        pytest.param("retention", {"decisions": "2d", "maxSize": "1GiB"}, id="retention"),
        pytest.param("tolerations", [{"key": "nvidia.com/gpu", "operator": "Exists"}], id="toleration"),
        pytest.param("affinity", {"nodeAffinity": {"anything": []}}, id="affinity"),
        pytest.param("nodeSelector", {"node-role.kubernetes.io/control-plane": ""}, id="selector"),
        pytest.param("networkPolicy.apiServerCidrs", ["10.0.0.1/32", "fd00::/8"], id="CIDRs"),
        pytest.param("global", {"imageRegistry": "x"}, id="what an umbrella chart shares"),
        pytest.param("listenAddress", "::", id="IPv6"),
    ],
)
def test_what_is_right_is_allowed(path: str, value: object) -> None:
    assert problems(changed(path, value)) == []


def _bare(schema: Any) -> Any:
    """Without words and defaults."""
    left_out = ("default", "description", "title")
    if isinstance(schema, dict):
        return {key: _bare(each) for key, each in schema.items() if key not in left_out and not key.startswith("x-")}
    return [_bare(each) for each in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("forecast", "ForecastSection"),
        ("retention", "RetentionSection"),
        ("scrape", "ScrapeSection"),
        ("leaderElection", "ElectionSection"),
    ],
)
def test_keys_of_the_configuration_are_as_the_program_takes_them(here: str, there: str) -> None:
    ours, theirs = SCHEMA["$defs"][here], _bare(json_schema()["$defs"][there])
    # The chart itself says where the Lease is.
    own = {"enabled", "leaseName", "namespace"} if here == "leaderElection" else set()
    assert ours == {**theirs, "properties": {key: each for key, each in theirs["properties"].items() if key not in own}}


def test_defaults_are_the_programs_own() -> None:
    section = KubernetesSection()
    election, scrape = VALUES["leaderElection"], VALUES["scrape"]
    assert election["leaseDurationSeconds"] == section.leader_election.lease_duration_seconds
    assert parse_duration(election["renewDeadline"]) == section.leader_election.renew_deadline
    assert parse_duration(election["retryPeriod"]) == section.leader_election.retry_period
    assert scrape["maxConnections"] == section.scrape.max_connections
    assert parse_duration(scrape["timeout"]) == section.scrape.timeout
    for key, server in (("externalMetrics", section.external_metrics), ("externalScaler", section.external_scaler)):
        assert VALUES[key]["port"] == server.port
        assert VALUES[key]["enabled"] == server.enabled


def test_the_readme_lists_every_value() -> None:
    readme = (CHART / "README.md").read_text(encoding="utf-8")
    assert with_table(readme, TEXT) == readme, "python -m tests.charts.values_table writes it"
    assert len(list(rows(TEXT))) > 90
