"""The examples for a cluster are taken by a real API server as they are, and fit one another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from autoscaler.config.resource_reading import parse_resource
from autoscaler.domain.resource import AutoscalerResource
from tests.cluster.running import ROOT, Cluster

FILES = sorted((ROOT / "examples/kubernetes").glob("*.yaml"))
OBJECTS: list[Mapping[str, Any]] = [each for file in FILES for each in yaml.safe_load_all(file.read_text())]


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    cluster.define_kinds(ROOT / "charts/gpu-autoscaler/crds")
    with cluster.namespace() as name:
        yield name


@pytest.mark.cluster
@pytest.mark.parametrize("file", [pytest.param(each, id=each.name) for each in FILES])
def test_a_strict_server_takes_it(cluster: Cluster, namespace: str, file: object) -> None:
    command = ("apply", "--dry-run=server", "--validate=strict", f"--namespace={namespace}", "--filename", str(file))
    assert "(server dry run)" in cluster.kubectl(*command)


def test_autoscalers_can_be_used_and_their_targets_are_examples_too() -> None:
    there = {(each["apiVersion"], each["kind"], each["metadata"]["name"]) for each in OBJECTS}
    resources = [parse_resource(each) for each in OBJECTS if each["kind"] == "InferenceAutoscaler"]
    assert len(resources) >= 2
    for resource in resources:
        assert isinstance(resource, AutoscalerResource)
        for source in resource.sources:
            assert (source.target.api_version, source.target.kind, source.target.name) in there


def test_no_count_is_set_back_when_an_example_is_applied_again() -> None:
    assert [each["metadata"]["name"] for each in OBJECTS if "replicas" in each["spec"]] == []
