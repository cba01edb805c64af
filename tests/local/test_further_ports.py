"""Servers with their metrics page, or gRPC, on a port of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from adapters.local.command import free_port, launch_of
from adapters.local.lifecycle import Pace
from adapters.local.placing import asked_for, placed
from adapters.local.record import ReplicaRecord
from adapters.local.template import ReplicaTemplate
from autoscaler.domain.cluster import Phase
from tests.local.rehearsal import template

WORDS = ("serve", "{port}", "{metrics_port}", "{grpc_port}")


def placed_beside(others: tuple[ReplicaRecord, ...], wanted: ReplicaTemplate) -> ReplicaRecord:
    record = asked_for(wanted, name=f"chat-v-{len(others) + 1}", now_s=0.0)
    return placed(record, wanted, devices=(), others=others, find_port=free_port, now_s=0.0, pace=Pace())


def test_each_port_that_the_command_names_is_given_to_nobody_else() -> None:
    wanted = replace(template(), command=WORDS)
    records: tuple[ReplicaRecord, ...] = ()
    for _ in range(20):
        records = (*records, placed_beside(records, wanted))
    held = [port for record in records for port in record.held_ports]
    assert len(held) == 60
    assert len(set(held)) == 60
    launch = launch_of(wanted, records[0], logs=Path("/logs"))
    assert launch.argv == ("serve", *(str(port) for port in records[0].held_ports))


@pytest.mark.parametrize(
    ("words", "env", "ports"),
    [
        pytest.param(("serve", "{port}"), (), 1, id="one"),
        pytest.param(("serve", "{port}", "--metrics={metrics_port}"), (), 2, id="metrics"),
        pytest.param(("serve", "{port}"), (("GRPC", "{grpc_port}"),), 2, id="gRPC in the environment"),
    ],
)
def test_only_ports_that_are_named_are_held(
    words: tuple[str, ...], env: tuple[tuple[str, str], ...], ports: int
) -> None:
    assert len(placed_beside((), replace(template(), command=words, env=env)).held_ports) == ports


def test_the_page_is_asked_on_its_own_port_and_readiness_on_the_servers() -> None:
    record = replace(placed_beside((), replace(template(), command=WORDS)), phase=Phase.READY)
    replica = record.replica()
    assert replica.metrics_url == f"http://127.0.0.1:{record.metrics_port}/metrics"
    assert record.url == f"http://127.0.0.1:{record.port}"
    assert (replica.http_port, replica.grpc_port) == (record.port, record.grpc_port)


def test_a_replica_without_a_port_has_no_page_and_holds_none() -> None:
    record = replace(placed_beside((), replace(template(), command=WORDS)), port=None)
    assert record.held_ports == ()
    assert record.metrics_url is None
