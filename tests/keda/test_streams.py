"""Open streams: what is pushed, when they end, and that they take no room from one another."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import grpc
import pytest

from adapters.serving.keda.server import ScalerServer, ScalerSettings
from autoscaler.domain.reading import Unknown, UnknownReason
from tests.keda.client import Caller, Stream
from tests.keda.conftest import Clock
from tests.keda.notes import Notes

TIMEOUT = Unknown(UnknownReason.TIMEOUT, "no answer")


def test_activity_is_sent_on_opening_and_at_each_change_alone(keda: Caller, notes: Notes) -> None:
    notes.publish(0)
    stream = keda.activity()
    sent = [stream.next()]
    for desired in (0, 3, 4, 5, 0, 0, 1):
        notes.publish(desired)
        if (desired > 0) is not sent[-1]:
            sent.append(stream.next())
    assert sent == [False, True, False, True]
    stream.cancel()


def test_while_nothing_is_known_the_stream_stays_open_in_silence(keda: Caller, notes: Notes) -> None:
    unknown_service = keda.activity()
    notes.missing = "not loaded"
    unloaded = keda.activity()
    notes.missing = ""
    notes.publish(TIMEOUT)
    notes.publish(2)
    assert unknown_service.next() is True
    assert unloaded.next() is True
    notes.publish(TIMEOUT)
    notes.publish(2)
    notes.publish(0)
    assert unknown_service.next() is False


def test_what_was_said_is_repeated(notes: Notes, clock: Clock) -> None:
    notes.publish(3)
    server = ScalerServer(notes, ScalerSettings(port=0, repeat_s=0.05), now_s=clock.now_s)
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            stream = Caller(channel).activity()
            assert [stream.next() for _ in range(4)] == [True] * 4
            stream.cancel()
    finally:
        server.stop()


def test_stopping_ends_streams_in_good_order(keda: Caller, notes: Notes, server: ScalerServer) -> None:
    notes.publish(1)
    activity, specs = keda.activity(), keda.specs()
    activity.next()
    specs.next()
    assert notes.subscribers == 1
    server.stop()
    assert (activity.ends(), specs.ends()) == (grpc.StatusCode.OK, grpc.StatusCode.OK)
    assert notes.subscribers == 0
    notes.publish(0)


def test_so_many_streams_and_no_more_and_calls_go_on(keda: Caller, notes: Notes) -> None:
    notes.publish(1)
    streams = [keda.activity() for _ in range(3)]
    assert [stream.next() for stream in streams] == [True] * 3
    refused = keda.activity()
    assert refused.ends() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "external" in refused.why()
    assert keda.metrics()[0].whole == 1


def test_a_client_that_leaves_makes_room(keda: Caller, notes: Notes) -> None:
    notes.publish(1)
    for _ in range(3):
        stream = keda.activity()
        stream.next()
        stream.cancel()
    streams = [opened(keda) for _ in range(3)]
    assert len(streams) == 3


def opened(keda: Caller) -> Stream[bool]:
    """A stream that has said something, as soon as there is room for it; the test's time limit ends the waiting."""
    while True:
        stream = keda.activity()
        with suppress(grpc.RpcError):
            stream.next()
            return stream


def test_streams_outlive_the_age_at_which_clients_connect_anew(notes: Notes, clock: Clock) -> None:
    notes.publish(1)
    settings = ScalerSettings(port=0, connection_age_s=0.2, repeat_s=0.1)
    server = ScalerServer(notes, settings, now_s=clock.now_s)
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            seen: list[grpc.ChannelConnectivity] = []
            before = set(threading.enumerate())
            channel.subscribe(told := seen.append)
            watching = set(threading.enumerate()) - before
            stream = Caller(channel).activity()
            while grpc.ChannelConnectivity.IDLE not in seen[1:]:
                assert stream.next() is True
            notes.publish(0)
            while stream.next():
                pass
            assert Caller(channel).metrics()[0].whole == 0
            stream.cancel()
            # What still watches a channel that is closed raises in its thread, in the middle of another test.
            channel.unsubscribe(told)
            for thread in watching:
                thread.join()
    finally:
        server.stop()


@pytest.mark.parametrize("method", ["IsActive", "GetMetricSpec", "GetMetrics"])
def test_many_calls_at_once_are_all_answered(keda: Caller, notes: Notes, server: ScalerServer, method: str) -> None:
    notes.publish(4)
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        call: Any = channel.unary_unary(f"/externalscaler.ExternalScaler/{method}")
        request = b"\x0a\x0c\x0a\x04chat\x12\x04prod" if method == "GetMetrics" else b"\x0a\x04chat\x12\x04prod"
        pending = [call.future(request, timeout=20) for _ in range(200)]
        answers = {each.result() for each in pending}
    assert len(answers) == 1
