"""A release that is upgraded in place with other values: each upgrade is taken, and leaves what its values ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.rendering import CHART
from tests.cluster.api import Json
from tests.cluster.chart import Release, release_in
from tests.cluster.running import Cluster

pytestmark = pytest.mark.cluster

GATEWAY: dict[str, Any] = {"gateway": {"enabled": True}}
SCALES: dict[str, Any] = {"mode": "Scale", "targets": {"rayServices": True, "nimServices": True}}
SERVERS: dict[str, Any] = {
    "externalMetrics": {"enabled": True},
    "externalScaler": {"enabled": True, "tls": {"enabled": True}},
    "networkPolicy": {"enabled": True},
}


@pytest.fixture
def release(cluster: Cluster, tmp_path: Path) -> Iterator[Release]:
    """Not installed yet; uninstalled at the end."""
    cluster.define_kinds(CHART / "crds")
    with release_in(cluster, tmp_path) as made:
        yield made


def manifest(release: Release) -> dict[str, Json]:
    """What Helm holds the release to be made of, by the place of each object."""
    told = release.cluster.helm("get", "manifest", release.name, "--namespace", release.namespace)
    objects = [each for each in yaml.safe_load_all(told) if each]
    return {release.cluster.api.path_of(each, release.namespace): each for each in objects}


STEPS: tuple[Mapping[str, Any], ...] = (
    {},
    GATEWAY,
    {**GATEWAY, **SCALES, **SERVERS},
    {**SCALES, "state": {"kind": "volume"}},
    {**GATEWAY, "state": {"kind": "volume"}, "replicaCount": 1},
    {**GATEWAY, "state": {"kind": "volume"}, "podLabels": {"team": "llm"}, "extraLabels": {"cost": "llm"}},
    {**GATEWAY, "podLabels": {"team": "llm"}, "extraLabels": {"cost": "llm"}},
    {"serviceAccount": {"name": "another"}, "rbac": {"create": True}},
    {},
)


def test_values_change_in_place(release: Release) -> None:
    seen: set[str] = set()
    first: set[str] = set()
    for step in STEPS:
        release.install(step)
        wanted = manifest(release)
        missing = [place for place in wanted if release.cluster.api.find(place) is None]
        assert missing == [], step
        left = [
            place
            for place in seen - set(wanted)
            if (found := release.cluster.api.find(place)) is not None and "deletionTimestamp" not in found["metadata"]
        ]
        assert left == [], step
        seen |= set(wanted)
        first = first or set(wanted)
    assert set(manifest(release)) == first
