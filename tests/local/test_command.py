"""From a template to a command line, a port and a log file."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.local.command import drop_old_logs, free_port, launch_of, log_path, port_was_taken
from adapters.local.record import ReplicaRecord
from adapters.local.template import ReplicaTemplate
from autoscaler.codec import decode
from autoscaler.domain.cluster import Phase
from autoscaler.domain.service import DeviceRequest, ServiceId, Variant

TEMPLATE = ReplicaTemplate(
    service=ServiceId("chat"),
    variant=Variant(name="two", devices=DeviceRequest(kind="gpu", count=2)),
    command=("vllm", "serve", "{model}", "--host={host}", "--port", "{port}", "--name", "{service}/{variant}/{name}"),
    env=(("CACHE", "/tmp/{name}"), ("OVERRIDES", '{"a": {"b": 1}, "d": "{devices}", "x": "{unknown}"}')),
    model="a-{port}-model",
    cwd="/srv",
)
RECORD = ReplicaRecord(
    name="chat-two-1",
    service=ServiceId("chat"),
    variant="two",
    phase=Phase.STARTING,
    created_s=5.0,
    grace_period_s=60.0,
    ready_path="/health",
    metrics_path="/metrics",
    port=8123,
    devices=("1", "3"),
)


def test_placeholders_are_filled_in_once_and_other_braces_are_left() -> None:
    launch = launch_of(TEMPLATE, RECORD, logs=Path("/logs"))
    assert launch.argv[2:] == (
        *("a-{port}-model", "--host=127.0.0.1", "--port", "8123"),
        *("--name", "chat/two/chat-two-1"),
    )
    assert dict(launch.env) == {
        "CACHE": "/tmp/chat-two-1",
        "OVERRIDES": '{"a": {"b": 1}, "d": "1,3", "x": "{unknown}"}',
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "1,3",
    }
    assert launch.cwd == "/srv"
    assert launch.log == Path("/logs/chat/chat-two-1.log")
    assert decode(ReplicaRecord, launch.record.encode()) == RECORD


def test_a_variant_without_devices_leaves_the_choice_to_the_environment() -> None:
    template = replace(TEMPLATE, variant=Variant(name="two"))
    launch = launch_of(template, replace(RECORD, devices=()), logs=Path("/logs"))
    assert not {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"} & dict(launch.env).keys()


@pytest.mark.parametrize("service", ["..", "../../etc", "/etc", "a/b", "a b\n", ".hidden"])
def test_log_files_stay_in_their_folder(tmp_path: Path, service: str) -> None:
    record = replace(RECORD, service=ServiceId(service), name=f"{service}-v-1")
    path = log_path(record, logs=tmp_path)
    assert path.resolve().is_relative_to(tmp_path)
    assert len(path.relative_to(tmp_path).parts) == 2


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        pytest.param("OSError: [Errno 98] Address already in use", True, id="python"),
        pytest.param("ERROR: [Errno 98] error while attempting to bind: address already in use\n", True, id="uvicorn"),
        pytest.param("Address already in use" + "x" * 20_000, False, id="long ago"),
        pytest.param("CUDA out of memory", False, id="something else"),
        pytest.param("", False, id="empty"),
        pytest.param(None, False, id="no file"),
    ],
)
def test_a_taken_port_is_told_by_the_log(tmp_path: Path, text: str | None, taken: bool) -> None:  # noqa: FBT001
    log = tmp_path / "chat.log"
    if text is not None:
        log.write_text(text)
    assert port_was_taken(log) is taken


def test_only_the_newest_logs_of_past_replicas_are_kept(tmp_path: Path) -> None:
    logs = [tmp_path / f"chat-v-{number}.log" for number in range(30)]
    for age, log in enumerate(logs):
        log.touch()
        os.utime(log, (1000 - age, 1000 - age))
    drop_old_logs(tmp_path, keep={logs[29]})
    assert {path for path in logs if path.exists()} == {*logs[:20], logs[29]}
    drop_old_logs(tmp_path / "missing", keep=())


def test_a_port_is_free_and_not_promised_to_another() -> None:
    taken: set[int] = set()
    for _ in range(50):
        port = free_port(taken)
        assert port not in taken
        taken.add(port)
        with socket.create_server(("127.0.0.1", port)):
            pass
