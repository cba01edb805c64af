"""The connection, watched collections and events against a real API server, through its outages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from adapters.kubernetes.api_errors import NotFoundError
from adapters.kubernetes.connection import Collection, KubernetesApi, PatchKind
from adapters.kubernetes.event_folding import EventType, Limits, Subject
from adapters.kubernetes.events import EventRecorder
from adapters.kubernetes.raw_json import JsonObject, inner, text, whole
from adapters.kubernetes.watching import Watched, WatchPace
from adapters.wallclock import WallClock
from autoscaler.ports import ConflictError, RefusedError
from tests.cluster.api import Json
from tests.cluster.processes import wait_for
from tests.cluster.running import Cluster

pytestmark = pytest.mark.cluster

CONFIG_MAPS = Collection(group="", version="v1", plural="configmaps")
DEPLOYMENTS = Collection(group="apps", version="v1", plural="deployments")
QUICK = WatchPace(
    page=10, watch_s=2, silence_s=4.0, list_timeout_s=4.0, first_pause_s=0.1, most_pause_s=1.0, absent_pause_s=0.3
)


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """One of its own for each test."""
    with cluster.namespace() as name:
        yield name


@pytest.fixture
def api(cluster: Cluster) -> Iterator[KubernetesApi]:
    """The administrator's."""
    connected = KubernetesApi.of_kubeconfig(cluster.kubeconfig)
    yield connected
    connected.close()


def _value(source: JsonObject) -> str:
    return text(source, "data", "value")


def _config_map(name: str, value: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"test": "watched"}},
        "data": {"value": value},
    }


class Followed:
    """The ConfigMaps of a namespace: as the cluster is told, and as they are seen."""

    def __init__(self, cluster: Cluster, api: KubernetesApi, namespace: str) -> None:
        self._cluster = cluster
        self._maps = CONFIG_MAPS.within(namespace)
        self.watched = Watched(
            api, self._maps, _value, now_s=WallClock().now_s, label_selector="test=watched", pace=QUICK
        )

    def write(self, name: str, value: str) -> None:
        """Create or change one."""
        if self._cluster.api.find(self._maps.item(name)) is None:
            self._cluster.api.post(self._maps.path, _config_map(name, value))
        else:
            self._cluster.api.patch(self._maps.item(name), {"data": {"value": value}})

    def remove(self, name: str) -> None:
        """Delete one."""
        self._cluster.api.delete(self._maps.item(name))

    def seen(self) -> dict[str, str]:
        """Values by name."""
        return {key.name: value for key, value in self.watched.items().items()}

    def await_seen(self, expected: dict[str, str]) -> None:
        """Until they are as expected."""
        wait_for(lambda: self.watched.synced and self.seen() == expected, f"{expected} is seen")

    def await_well(self) -> None:
        """Until the last attempt succeeded."""
        wait_for(lambda: self.watched.failure is None, "the watch is well")


@pytest.fixture
def followed(cluster: Cluster, api: KubernetesApi, namespace: str) -> Iterator[Followed]:
    """Followed from the beginning."""
    following = Followed(cluster, api, namespace)
    following.watched.start()
    yield following
    following.watched.close()


def test_changes_are_seen(followed: Followed) -> None:
    for number in range(25):
        followed.write(f"m{number}", "1")
    followed.await_seen({f"m{number}": "1" for number in range(25)})
    followed.write("m3", "2")
    followed.remove("m4")
    followed.await_seen({f"m{number}": "2" if number == 3 else "1" for number in range(25) if number != 4})


def test_pages_of_a_list_are_one_collection(
    cluster: Cluster, api: KubernetesApi, namespace: str, followed: Followed
) -> None:
    for number in range(35):
        followed.write(f"m{number}", "1")
    late = Followed(cluster, api, namespace)
    late.watched.start()
    late.await_seen({f"m{number}": "1" for number in range(35)})
    late.watched.close()


def test_a_quiet_collection_is_heard_of(followed: Followed) -> None:
    followed.await_seen({})
    first_s = followed.watched.heard_s
    assert first_s is not None
    wait_for(lambda: (followed.watched.heard_s or 0.0) > first_s + 3.0, "the server is heard again, twice")
    assert followed.watched.failure is None


def test_a_restart_of_the_api_server_is_survived(cluster: Cluster, followed: Followed) -> None:
    followed.write("stays", "1")
    followed.write("goes", "1")
    followed.await_seen({"stays": "1", "goes": "1"})
    before = followed.watched.items()
    with cluster.api_server_down():
        wait_for(lambda: followed.watched.failure is not None, "the outage is noticed")
        assert followed.watched.items() == before, "what was known is kept"
    followed.remove("goes")
    followed.write("comes", "2")
    followed.await_seen({"stays": "1", "comes": "2"})
    followed.await_well()


@pytest.mark.parametrize("outage", ["api_server_hanging", "etcd_paused"])
def test_a_control_plane_that_stands_still_is_survived(cluster: Cluster, followed: Followed, outage: str) -> None:
    followed.write("a", "1")
    followed.await_seen({"a": "1"})
    paused: Callable[[], AbstractContextManager[None]] = getattr(cluster, outage)
    with paused():
        if outage == "api_server_hanging":
            wait_for(lambda: followed.watched.failure is not None, "the silence is noticed")
        assert followed.seen() == {"a": "1"}
    followed.write("a", "2")
    followed.await_seen({"a": "2"})
    followed.await_well()


def test_a_version_that_is_no_longer_kept_is_told(api: KubernetesApi, namespace: str) -> None:
    path = CONFIG_MAPS.within(namespace).path
    query = {"watch": "true", "resourceVersion": "1", "timeoutSeconds": "5"}
    with api.stream(path, query, silence_s=10.0) as stream:
        first = next(iter(stream))
    assert b'"code":410' in first


def test_a_kind_that_comes_and_goes(cluster: Cluster, api: KubernetesApi, namespace: str) -> None:
    plural = f"t{namespace.replace('-', '')}s"
    group = "watching.example.org"
    kinds = Collection(group="apiextensions.k8s.io", version="v1", plural="customresourcedefinitions")
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural[:-1], "kind": plural[:-1].capitalize()},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "properties": {"size": {"type": "integer"}}},
                    },
                }
            ],
        },
    }
    things = Collection(group=group, version="v1", plural=plural)
    watched = Watched(
        api, things, lambda source: whole(source, "size"), now_s=WallClock().now_s, optional=True, pace=QUICK
    )
    watched.start()
    wait_for(lambda: watched.absent, "it is known to be absent")
    assert watched.items() == {}
    api.create(kinds.path, definition)
    wait_for(lambda: not watched.absent, "it is known to be there")
    api.create(
        things.within(namespace).path,
        {"apiVersion": f"{group}/v1", "kind": plural[:-1].capitalize(), "metadata": {"name": "a"}, "size": 3},
    )
    wait_for(lambda: list(watched.items().values()) == [3], "the object is seen")
    api.delete(kinds.item(f"{plural}.{group}"))
    wait_for(lambda: watched.absent, "it is absent again")
    assert watched.items() == {}
    watched.close()


def test_rights_that_are_missing_are_named(cluster: Cluster, namespace: str) -> None:
    api = KubernetesApi.of_kubeconfig(cluster.kubeconfig_for_service_account(namespace, "default"))
    with pytest.raises(RefusedError) as caught:
        api.get(DEPLOYMENTS.within(namespace).path)
    assert f'User "system:serviceaccount:{namespace}:default" cannot list resource "deployments"' in str(caught.value)
    watched = Watched(api, DEPLOYMENTS.within(namespace), _value, now_s=WallClock().now_s, pace=QUICK)
    watched.start()
    wait_for(lambda: watched.failure is not None, "the refusal is told")
    assert "cannot list" in (watched.failure or "")
    watched.close()
    api.close()


def test_credentials_that_are_wrong_are_refused(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "wrong.conf"
    path.write_text(cluster.kubeconfig.read_text().replace("client-certificate", "x-certificate"))
    api = KubernetesApi.of_kubeconfig(path)
    with pytest.raises(RefusedError, match="no credentials were sent"):
        api.get("/api/v1/nodes")
    api.close()


def test_a_pod_acts_as_its_service_account_and_reads_its_token_again(
    cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    host, _, port = cluster.server.removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    # Where every pod has these two files; not to be written to on the machine that runs the tests.
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(
        "kubernetes.config.incluster_config.SERVICE_CERT_FILENAME", str(cluster.certificates.ca.certificate)
    )
    monkeypatch.setattr("adapters.kubernetes.connection._RELOAD_EVERY_S", 0.0)
    token.write_text("expired")
    api = KubernetesApi.in_cluster()
    with pytest.raises(RefusedError, match="401 Unauthorized"):
        api.get("/api/v1/nodes")
    token.write_text(cluster.token(namespace, "default"))
    with pytest.raises(RefusedError, match=f'403 .*User "system:serviceaccount:{namespace}:default" cannot list'):
        api.get("/api/v1/nodes")
    api.close()


def test_a_server_whose_certificate_nobody_signed_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "wrong.conf"
    text_of = cluster.kubeconfig.read_text()
    path.write_text(
        text_of.replace(str(cluster.certificates.ca.certificate), str(cluster.certificates.foreign_ca.certificate))
    )
    api = KubernetesApi.of_kubeconfig(path)
    with pytest.raises(RefusedError, match="certificate isn't signed"):
        api.get("/api/v1/nodes")
    api.close()


def test_what_the_server_says_to_writes(api: KubernetesApi, namespace: str) -> None:
    maps = CONFIG_MAPS.within(namespace)
    made = api.create(maps.path, _config_map("a", "1"))
    with pytest.raises(ConflictError, match="already exists"):
        api.create(maps.path, _config_map("a", "1"))
    api.patch(maps.item("a"), {"data": {"value": "2"}}, kind=PatchKind.MERGE)
    with pytest.raises(ConflictError, match="modified"):
        api.replace(maps.item("a"), made)
    with pytest.raises(NotFoundError, match='"b" not found'):
        api.get(maps.item("b"))
    with pytest.raises(NotFoundError):
        api.get(Collection(group="nowhere.example.org", version="v1", plural="things").path)
    with pytest.raises(RefusedError, match="Invalid value"):
        api.create(maps.path, _config_map("NOT A NAME", "1"))
    with pytest.raises(RefusedError):
        api.create(maps.path, {"apiVersion": "v1", "kind": "ConfigMap", "data": 5})
    api.delete(maps.item("a"), {"preconditions": {"uid": text(made, "metadata", "uid")}})
    with pytest.raises(NotFoundError):
        api.delete(maps.item("a"))


def test_an_apply_takes_fields_over_only_by_force(api: KubernetesApi, namespace: str) -> None:
    maps = CONFIG_MAPS.within(namespace)
    api.create(maps.path, _config_map("a", "1"), {"fieldManager": "somebody-else"})
    with pytest.raises(ConflictError, match="somebody-else"):
        api.patch(maps.item("a"), _config_map("a", "2"), kind=PatchKind.APPLY)
    applied = api.patch(maps.item("a"), _config_map("a", "2"), kind=PatchKind.APPLY, force=True)
    assert inner(applied, "data") == {"value": "2"}


def test_events_are_taken_and_counted(cluster: Cluster, api: KubernetesApi, namespace: str) -> None:
    made = api.create(CONFIG_MAPS.within(namespace).path, _config_map("a", "1"))
    lost: list[str] = []
    recorder = EventRecorder(
        api,
        instance="pod-1",
        now_s=WallClock().now_s,
        report=lost.append,
        limits=Limits(count_every_s=0.0),
    )
    recorder.start()
    subject = Subject(
        api_version="v1", kind="ConfigMap", namespace=namespace, name="a", uid=text(made, "metadata", "uid")
    )
    node = Subject(api_version="v1", kind="Node", namespace="", name="cpu-0")
    for _ in range(3):
        recorder.record(
            subject, type=EventType.WARNING, reason="Held", action="Hold", note="no metrics: é" + "x" * 2000
        )
    recorder.record(node, type=EventType.NORMAL, reason="Seen", action="Look", note=f"by {namespace}")

    def counts() -> list[object]:
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        events = cluster.api.items(path, fieldSelector="reason=Held")
        return [event.get("series", {}).get("count") for event in events]

    wait_for(lambda: counts() == [3], "one event with a count of three")
    shown = cluster.kubectl("describe", "configmap", "a", "--namespace", namespace)
    assert "Held" in shown
    wait_for(lambda: any(event["note"] == f"by {namespace}" for event in _default_events(cluster)), "the node's event")
    recorder.close()
    assert lost == []


def _default_events(cluster: Cluster) -> list[Json]:
    return cluster.api.items("/apis/events.k8s.io/v1/namespaces/default/events", fieldSelector="reason=Seen")
