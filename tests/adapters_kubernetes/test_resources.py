"""InferenceAutoscalers in memory: what is asked of us, told to others, and forgotten."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from time import monotonic, sleep

import pytest

from adapters.kubernetes.connection import KubernetesApi
from adapters.kubernetes.contents import ObjectKey
from adapters.kubernetes.raw_json import JsonObject, inner, text
from adapters.kubernetes.resources import WatchedResources
from autoscaler.domain.reading import Unknown
from autoscaler.domain.resource import AutoscalerResource, RefusedResource, ResourceProblem
from autoscaler.ports import UnavailableError
from tests.adapters_kubernetes.resource_server import ResourceServer
from tests.adapters_kubernetes.scripted_server import ScriptedServer, told


class Reader:
    """Reads specs, and counts how often."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(self, source: JsonObject) -> AutoscalerResource | RefusedResource:
        metadata = inner(source, "metadata")
        name = text(metadata, "name")
        self.read.append(name)
        return RefusedResource(
            namespace=text(metadata, "namespace"),
            name=name,
            uid=text(metadata, "uid"),
            generation=1,
            problems=(ResourceProblem(path="spec", message="none of it can be used"),),
        )


Watch = Callable[..., WatchedResources]


def until(true: Callable[[], bool]) -> None:
    """Wait for an effect of another thread."""
    ends_s = monotonic() + 20.0
    while not true():
        assert monotonic() < ends_s, "it did not come about"
        sleep(0.002)


@pytest.fixture
def cluster(server: ScriptedServer) -> ResourceServer:
    """Answers whatever is not in the server's script."""
    made = ResourceServer()
    server.otherwise = made
    return made


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def watch(api: KubernetesApi, reader: Reader) -> Iterator[Watch]:
    """Follows the resources of some namespaces, or of all."""
    started: list[WatchedResources] = []

    def start(namespaces: Sequence[str] = ()) -> WatchedResources:
        made = WatchedResources(api, parse=reader, namespaces=namespaces, now_s=monotonic)
        started.append(made)
        made.start()
        return made

    yield start
    for each in started:
        each.close()


def names(resources: WatchedResources) -> list[str]:
    return sorted(str(key) for key in resources.views())


def test_before_they_are_listed_nothing_is_said(server: ScriptedServer, watch: Watch) -> None:
    resources = watch()
    for ask in (resources.views, resources.usable, lambda: resources.of("shop", "chat")):
        with pytest.raises(UnavailableError):
            ask()


@pytest.mark.parametrize(
    ("namespaces", "seen"),
    [
        pytest.param((), ["chat/a", "search/a", "shop/a"], id="all"),
        pytest.param(("shop",), ["shop/a"], id="one"),
        pytest.param(("shop", "chat"), ["chat/a", "shop/a"], id="two"),
    ],
)
def test_those_of_the_namespaces_are_followed(
    cluster: ResourceServer, watch: Watch, namespaces: tuple[str, ...], seen: list[str]
) -> None:
    for namespace in ("shop", "chat", "search"):
        cluster.apply("a", namespace=namespace)
    resources = watch(namespaces)
    assert resources.wait_synced(20.0)
    assert names(resources) == seen
    cluster.apply("b", namespace="shop")
    until(lambda: "shop/b" in names(resources))
    cluster.delete("a", namespace="shop")
    until(lambda: "shop/a" not in names(resources))
    assert resources.view(ObjectKey("shop", "b")) is not None
    assert resources.view(ObjectKey("shop", "a")) is None
    assert [each.name for each in resources.within("shop")] == ["b"]
    assert resources.of("shop", "a") is None


def test_a_spec_is_read_anew_when_it_changes_and_not_with_each_status(
    cluster: ResourceServer, watch: Watch, reader: Reader
) -> None:
    cluster.apply("chat")
    resources = watch()
    assert resources.wait_synced(20.0)
    changes: list[None] = []
    end = resources.subscribe(lambda: changes.append(None))
    for count in range(3):
        cluster.apply("chat", desiredReplicas=count)
    until(lambda: resources.views()[ObjectKey("shop", "chat")].status.get("desiredReplicas") == 2)
    assert reader.read == ["chat"]
    cluster.apply("chat", generation=2)
    until(lambda: reader.read == ["chat", "chat"])
    assert changes
    end()
    cluster.apply("chat", generation=2, uid="another")
    until(lambda: reader.read == ["chat", "chat", "chat"])


def test_what_is_told_of_a_namespace_follows_each_change(cluster: ResourceServer, watch: Watch) -> None:
    for name in ("b", "a"):
        cluster.apply(name)
    resources = watch()
    assert resources.wait_synced(20.0)
    assert [each.name for each in resources.within("shop")] == ["a", "b"]
    assert resources.within("elsewhere") == ()
    cluster.delete("a")
    until(lambda: [each.name for each in resources.within("shop")] == ["b"])


def test_a_status_that_is_no_object_hides_no_resource(cluster: ResourceServer, watch: Watch) -> None:
    cluster.apply("chat")
    cluster.set_status("chat", "written under another definition")
    resources = watch()
    assert resources.wait_synced(20.0)
    view = resources.view(ObjectKey("shop", "chat"))
    assert view is not None
    assert view.status == {}
    told = resources.of("shop", "chat")
    assert told is not None
    assert isinstance(told.desired_replicas, Unknown)
    assert "its status can't be read" in told.desired_replicas.detail


def test_a_cluster_without_the_definition_says_how_to_install_it(server: ScriptedServer, watch: Watch) -> None:
    server.otherwise = told(404, "the server could not find the requested resource")
    resources = watch()
    until(lambda: resources.absent)
    assert names(resources) == []
    for ask in (lambda: resources.of("shop", "chat"), lambda: resources.within("shop")):
        with pytest.raises(UnavailableError, match="gpu-autoscaler schema --resource"):
            ask()


def test_a_failure_is_told(server: ScriptedServer, watch: Watch) -> None:
    server.otherwise = told(403, "inferenceautoscalers is forbidden")
    resources = watch()
    until(lambda: "forbidden" in (resources.failure or ""))


def test_specs_of_those_that_are_gone_are_forgotten(cluster: ResourceServer, watch: Watch) -> None:
    """However many come and go, no more is kept than of those that there are, within a bound."""
    cluster.apply("stays")
    resources = watch()
    assert resources.wait_synced(20.0)
    for number in range(400):
        cluster.apply(f"passing-{number}")
        cluster.delete(f"passing-{number}")
    cluster.apply("last")
    until(lambda: "shop/last" in names(resources))
    gc.collect()
    kept = {each.name for each in gc.get_objects() if isinstance(each, RefusedResource) and "passing" in each.name}
    assert len(kept) < 100
    assert resources.view(ObjectKey("shop", "stays")) is not None
