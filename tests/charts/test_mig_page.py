"""docs/mig.md says what the code does: its resource is one, its names are devices, its labels are read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from adapters.kubernetes.nodes import node_view
from adapters.kubernetes.target_view import device_rank, is_extended
from autoscaler.config.resource_reading import parse_resource
from autoscaler.domain.resource import AutoscalerResource

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "mig.md").read_text(encoding="utf-8")
RUNBOOK = (DOCS / "runbook.md").read_text(encoding="utf-8")


def test_the_resource_is_right() -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    body = yaml.safe_load(text)
    body["metadata"] |= {"namespace": "default", "uid": "1", "generation": 1}
    body["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    assert isinstance(parse_resource(body), AutoscalerResource)


def test_names_of_slices_are_names_of_devices() -> None:
    names = set(re.findall(r"`((?:nvidia|amd)\.com/(?:gpu(?:\.shared)?|mig-\d\w+\.\w+(?:\.me)?))`", PAGE))
    assert len(names) >= 8
    network = "rdma/hca"
    for name in names:
        assert is_extended(name)
        assert device_rank(name) < device_rank(network)


@pytest.mark.parametrize(
    ("state", "takes_pods"),
    [("pending", False), ("rebooting", False), ("success", True), ("failed", True)],
)
def test_states_of_the_geometry(state: str, takes_pods: bool) -> None:  # noqa: FBT001
    assert f"`{state}`" in PAGE
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    labels = {"nvidia.com/mig.config.state": state, "nvidia.com/mig.strategy": "mixed"}
    view = node_view(
        {
            "metadata": {"name": "n", "labels": labels},
            "status": {"conditions": ready, "allocatable": {"nvidia.com/mig-1g.10gb": "7"}},
        }
    )
    assert view.takes_pods is takes_pods
    assert view.devices == {"nvidia.com/mig-1g.10gb": 7}


@pytest.mark.parametrize("page", [pytest.param(PAGE, id="mig"), pytest.param(RUNBOOK, id="runbook")])
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page):
        assert (DOCS / target).exists(), target
