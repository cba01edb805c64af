"""``python -m loadtests.harness --url URL --trace NAME``: an open-loop load through locust, and what became
of it.

As a library: ``run_load`` in a process of its own (importing locust patches the standard library for gevent),
or ``loadtests.openloop.offer`` anywhere. The ``locust`` command itself takes ``loadtests/locustfile.py``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import gevent.event
from locust.env import Environment
from rich.console import Console

from autoscaler.codec import encode
from loadtests.arrivals import Arrivals
from loadtests.client import Measuring
from loadtests.options import add_load_options, arrivals_of, head_of, target_of
from loadtests.records import LoadHead, LoadResult, RecordsFile, RequestRecord
from loadtests.replay_user import ReplayLoad, ReplayUser
from loadtests.scorecard import service_figures
from loadtests.scorecard_view import service_table


def run_load(
    arrivals: Arrivals,
    *,
    target: Measuring,
    drain_s: float,
    on_begin: Callable[[], None],
    on_record: Callable[[RequestRecord], None],
) -> Environment:
    """Offer the plan; returns when it is over, with locust's environment (``stats`` holds its statistics).

    ``on_begin`` is called at the load's first moment, ``on_record`` as each request ends.
    """
    over = gevent.event.Event()

    class OnceUser(ReplayUser):
        load = ReplayLoad(
            arrivals=arrivals,
            target=target,
            drain_s=drain_s,
            on_begin=on_begin,
            on_record=on_record,
            on_end=over.set,
        )

    environment = Environment(user_classes=[OnceUser], host=target.url)
    runner = environment.create_local_runner()
    runner.start(user_count=1, spawn_rate=1)
    over.wait()
    runner.quit()
    return environment


class _Keeper:
    """Collects a load's records, and writes them to a file where one is asked for."""

    def __init__(self, file: RecordsFile | None, head: Callable[[], LoadHead]) -> None:
        self._file = file
        self._make_head = head
        self._head = head()
        self._records: list[RequestRecord] = []

    def begin(self) -> None:
        self._head = self._make_head()
        if self._file is not None:
            self._file.begin(self._head)

    def keep(self, record: RequestRecord) -> None:
        self._records.append(record)
        if self._file is not None:
            self._file.write(record)

    def result(self) -> LoadResult:
        return LoadResult(head=self._head, records=tuple(self._records))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Status 0 when the share in SLO reached ``--require``, else 1."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.harness", description=__doc__.partition("\n")[0])
    parser.add_argument("--url", required=True, help="such as http://127.0.0.1:8080")
    parser.add_argument("--require", type=float, default=0.0, metavar="SHARE", help="least share in SLO, 0 to 1")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_load_options(parser)
    given = parser.parse_args(arguments)
    try:
        arrivals = arrivals_of(given)
        target = target_of(given, url=given.url)
        file = None if given.records is None else RecordsFile(given.records)
        keeper = _Keeper(file, lambda: head_of(given, target, arrivals))
    except (OSError, ValueError) as error:
        parser.error(str(error))
    run_load(arrivals, target=target, drain_s=given.drain_s, on_begin=keeper.begin, on_record=keeper.keep)
    figures = service_figures(keeper.result())
    console = Console()
    if given.json:
        console.print_json(encode(figures).decode())
    else:
        console.print(service_table(figures))
    return 0 if figures.share_in_slo >= given.require else 1


if __name__ == "__main__":
    raise SystemExit(main())
