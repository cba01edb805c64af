"""Open-loop load for the ``locust`` command.

    locust -f loadtests/locustfile.py --headless --host http://127.0.0.1:8080 \
        --trace azure2023_conv --duration-s 180 --requests 900

One user sends everything. Distributed runs would send it once for each worker.
"""

from __future__ import annotations

import argparse
import sys

from locust import events
from locust.env import Environment

from loadtests.options import add_load_options, arrivals_of, head_of, target_of
from loadtests.records import RecordsFile, RequestRecord
from loadtests.replay_user import ReplayLoad, ReplayUser


class TraceUser(ReplayUser):
    """Sends what the command line says."""


@events.init_command_line_parser.add_listener  # type: ignore[untyped-decorator]
def _declare_options(parser: argparse.ArgumentParser) -> None:
    add_load_options(parser)


@events.init.add_listener  # type: ignore[untyped-decorator]
def _read_options(environment: Environment, **_: object) -> None:
    given, runner = environment.parsed_options, environment.runner
    if given is None or runner is None:
        raise RuntimeError("this file is for the locust command")
    try:
        arrivals = arrivals_of(given)
        target = target_of(given, url=environment.host or "")
        head_of(given, target, arrivals)
        file = None if given.records is None else RecordsFile(given.records)
    except (OSError, ValueError) as error:
        sys.exit(str(error))

    def begin() -> None:
        if file is not None:
            file.begin(head_of(given, target, arrivals))

    def keep(record: RequestRecord) -> None:
        if file is not None:
            file.write(record)

    TraceUser.load = ReplayLoad(
        arrivals=arrivals,
        target=target,
        drain_s=given.drain_s,
        on_begin=begin,
        on_record=keep,
        on_end=runner.quit,
    )
