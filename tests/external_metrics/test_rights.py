"""What is asked of the API server, how often, and what happens while it does not answer."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from autoscaler.domain.caller import Access, User
from tests.external_metrics.authorities import issue
from tests.external_metrics.scene import API, AUDIENCE, HPA, Reply, Scene, a_publication, bearer, named

PATH = f"{API}/namespaces/prod/desired_replicas"


def _asked(scene: Scene, kind: str) -> int:
    return sum(asked == kind for asked, _ in scene.cluster.asked)


def _until(scene: Scene, kind: str, count: int) -> None:
    """Wait until so many questions were asked in the background."""
    tick = threading.Event()
    for _ in range(1000):
        if _asked(scene, kind) >= count:
            return
        tick.wait(0.01)
    raise AssertionError(f"{_asked(scene, kind)} questions about {kind}, not {count}")


def test_the_question_is_the_one_that_kube_apiserver_asks(scene: Scene) -> None:
    headers = [
        *named(HPA, "system:serviceaccounts", "system:authenticated"),
        ("X-Remote-Uid", "42"),
        ("X-Remote-Extra-Authentication.kubernetes.io%2fcredential-Id", "JTI=1"),
    ]
    assert scene.ask(PATH, pair=scene.proxy, headers=headers).status == 200
    user = User(
        name=HPA,
        groups=("system:serviceaccounts", "system:authenticated"),
        uid="42",
        extra=(("authentication.kubernetes.io/credential-id", ("JTI=1",)),),
    )
    access = Access(
        verb="list", group="external.metrics.k8s.io", version="v1beta1", resource="desired_replicas", namespace="prod"
    )
    assert scene.cluster.asked == [("access", (user, access))]


def test_yes_and_no_are_remembered_for_ten_seconds(scene: Scene) -> None:
    for name, status in (("monitor", 200), ("eve", 403)):
        pair, before = issue(scene.ca, name), _asked(scene, "access")
        for passed_s, asked in ((0.0, 1), (9.0, 1), (2.0, 2)):
            scene.now_s += passed_s
            assert scene.ask(PATH, pair=pair).status == status
            assert _asked(scene, "access") - before == asked


def test_another_namespace_or_metric_or_group_is_another_question(scene: Scene) -> None:
    pair = issue(scene.ca, "eve")
    for path in (PATH, f"{API}/namespaces/other/desired_replicas", f"{API}/namespaces/prod/waiting"):
        assert scene.ask(path, pair=pair).status == 403
    assert scene.ask(PATH, pair=issue(scene.ca, "eve", groups=("readers",))).status == 403
    assert _asked(scene, "access") == 4


def test_a_tokens_owner_is_remembered_and_so_is_that_it_has_none(scene: Scene) -> None:
    scene.cluster.tokens = {("good", AUDIENCE): User(name="monitor")}
    for _ in range(3):
        assert scene.ask(PATH, headers=bearer("good")).status == 200
        assert scene.ask(PATH, headers=bearer("bad")).status == 401
    assert _asked(scene, "token") == 2
    scene.cluster.tokens = {}
    scene.now_s += 10.1
    assert scene.ask(PATH, headers=bearer("good")).status == 401


def test_no_answer_is_not_remembered(scene: Scene) -> None:
    scene.cluster.down = {"access", "token"}
    scene.cluster.tokens = {("good", AUDIENCE): User(name="monitor")}
    assert scene.ask(PATH, headers=bearer("good")).status == 500
    scene.cluster.down = {"access"}
    assert scene.ask(PATH, headers=bearer("good")).status == 500
    scene.cluster.down = set()
    assert scene.ask(PATH, headers=bearer("good")).status == 200


def test_the_hpas_second_read_waits_for_nobody_while_a_direct_callers_does(scene: Scene) -> None:
    monitor = issue(scene.ca, "monitor")
    assert scene.metric().status == 200
    assert scene.ask(PATH, pair=monitor).status == 200
    scene.now_s += 15.0
    scene.cluster.gate.clear()  # the API server hangs
    assert scene.metric().status == 200
    with ThreadPoolExecutor(1) as threads:
        direct = threads.submit(scene.ask, PATH, pair=monitor)
        _until(scene, "access", 4)
        assert not direct.done()
        scene.cluster.gate.set()
        assert direct.result(timeout=10).status == 200


def test_rights_taken_away_end_the_hpas_reads_after_one_more(scene: Scene) -> None:
    assert scene.metric().status == 200
    scene.cluster.readers.clear()
    scene.now_s += 15.0
    assert scene.metric().status == 200
    _until(scene, "access", 2)
    assert scene.metric().status == 403


def test_the_hpas_rights_end_two_minutes_after_the_last_yes(scene: Scene) -> None:
    assert scene.metric().status == 200
    scene.cluster.down = {"access"}
    for passed_s, status in ((15.0, 200), (60.0, 200), (50.0, 500)):
        scene.now_s += passed_s
        scene.shelf.put(a_publication("chat", at_s=scene.now_s))
        assert scene.metric().status == status


def test_many_who_ask_the_same_at_once_cost_one_question(scene: Scene) -> None:
    scene.cluster.gate.clear()
    with ThreadPoolExecutor(20) as threads:
        replies = [threads.submit(scene.metric) for _ in range(20)]
        _until(scene, "access", 1)
        scene.cluster.gate.set()
        results: list[Reply] = [reply.result(timeout=20) for reply in replies]
    assert [result.status for result in results] == [200] * 20
    assert _asked(scene, "access") == 1


def test_a_flood_of_invented_tokens_does_not_delay_the_hpa(scene: Scene) -> None:
    assert scene.metric().status == 200
    scene.cluster.gate.clear()
    with ThreadPoolExecutor(40) as threads:
        flood = [threads.submit(scene.ask, PATH, headers=bearer(f"invented-{number}")) for number in range(40)]
        _until(scene, "token", 8)
        assert scene.metric().status == 200
        scene.cluster.gate.set()
        assert {reply.result(timeout=30).status for reply in flood} == {401}
