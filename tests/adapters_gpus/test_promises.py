"""What holds for every page, however odd."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from adapters.gpus.pages import devices_on, sample_names
from autoscaler.domain.gpu_reading import GpuReading, PodName
from autoscaler.domain.reading import is_known
from autoscaler.policy.device_attribution import Allotment, devices_of
from tests.adapters_gpus.test_pages import NUMBERS

FRACTIONS = NUMBERS[:4]
PODS = [PodName(namespace="x", name="a"), PodName(namespace="x", name="b"), PodName(namespace="y", name="a")]


class Row:
    """A sample as any parser hands it over."""

    def __init__(self, name: str, labels: dict[str, str]) -> None:
        self.name = name
        self.labels = tuple(sorted(labels.items()))

    def __repr__(self) -> str:
        return f"{self.name}{dict(self.labels)}"


values = st.one_of(
    st.floats(),
    st.sampled_from([0.0, 0.5, 1.0, 50.0, 100.0, 1.000001, 4294967295.0, 2.0**31 - 16, 140737488355328.0, 2.0**63]),
)
CARDS = [("GPU-1", "0"), ("GPU-2", "1"), ("", "2"), ("", "")]
PARTS: dict[str, list[dict[str, str]]] = {
    "nvidia": [{}, {"GPU_I_ID": "1", "GPU_I_PROFILE": "1g.10gb"}, {"GPU_I_ID": "2", "GPU_I_PROFILE": "3g.40gb"}],
    "amd": [{}, {"gpu_partition_id": "1", "gpu_compute_partition_type": "cpx"}],
}
HOLDERS: list[dict[str, str]] = [
    {},
    *({"pod": pod.name, "namespace": pod.namespace} for pod in PODS),
    *({"exported_pod": pod.name, "exported_namespace": pod.namespace, "pod": "exporter"} for pod in PODS),
]


def a_row(vendor: str) -> st.SearchStrategy[tuple[Row, float]]:
    """A row of this vendor's exporter."""
    uuid, index, host = ("UUID", "gpu", "Hostname") if vendor == "nvidia" else ("gpu_uuid", "gpu_id", "hostname")
    names = sorted(name for name in sample_names() if name.lower().startswith("dcgm") == (vendor == "nvidia"))

    def labels(card: tuple[str, str], node: str, xid: str) -> dict[str, str]:
        unique = card[0] if vendor == "nvidia" else card[0].lower()
        return {uuid: unique, index: card[1], host: node, "xid": xid}

    some = st.sampled_from
    own = st.builds(labels, some(CARDS), some(["n1", "n2"]), some(["79", "31", "", "x"]))
    every = st.tuples(own, some(PARTS[vendor]), some(HOLDERS)).map(lambda parts: {**parts[0], **parts[1], **parts[2]})
    return st.tuples(st.builds(Row, some(names), every), values)


pages = st.lists(st.one_of(a_row("nvidia"), a_row("amd")), max_size=12)


def is_in_range(reading: GpuReading, name: str) -> bool:
    value = getattr(reading, name)
    return not is_known(value) or (math.isfinite(value) and 0 <= value <= (1 if name in FRACTIONS else 2**60))


@given(pages)
def test_no_value_is_outside_its_range_and_no_page_is_an_error(page: list[tuple[Row, float]]) -> None:
    for reading in devices_on(page, at_s=1.0).devices:
        assert [name for name in NUMBERS if not is_in_range(reading, name)] == []
        if is_known(reading.fb_used_mib) and is_known(reading.fb_total_mib):
            assert reading.fb_used_mib <= reading.fb_total_mib


@given(pages.flatmap(lambda page: st.tuples(st.just(page), st.permutations(page))))
def test_the_order_of_rows_does_not_matter(both: tuple[list[tuple[Row, float]], list[tuple[Row, float]]]) -> None:
    first, second = (sorted(map(repr, devices_on(page, at_s=1.0).devices)) for page in both)
    assert first == second


@given(pages)
def test_no_device_is_attributed_to_two_pods(page: list[tuple[Row, float]]) -> None:
    readings = devices_on(page, at_s=1.0).devices
    owned = [
        reading
        for pod in PODS
        for found in [devices_of(Allotment(pod=pod), readings)]
        if isinstance(found, tuple)
        for reading in found
    ]
    assert len(owned) == len({id(reading) for reading in owned})
    assert all(isinstance(reading.holder, PodName) for reading in owned)


@given(pages)
def test_a_device_is_listed_once(page: list[tuple[Row, float]]) -> None:
    devices = devices_on(page, at_s=1.0).devices
    places = [each.key for each in devices]
    assert len(places) == len(set(places))
