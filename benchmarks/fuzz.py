"""Pages that no server should send, read by every engine's table.

``python -m benchmarks.fuzz [--of engines|gateways|statistics] [--seconds N] [--seed N]`` spends N seconds of CPU
(default 600) on pages made of the tables' own names with senseless labels and values, and on damaged copies of recorded
pages. Each must end in a reading whose values lie in their ranges or in a reason, as a report too, and the same from a
reader that has met others before. The first page that does not is printed with its number, and the exit status is 1.
Pages of gateways and Triton's statistics are in ``benchmarks.fuzz_gateways``.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Protocol

from adapters.engines.detection import TABLES
from adapters.engines.exposition import MAX_LINE_BYTES
from adapters.engines.fetched import FetchedPage
from adapters.engines.page_reader import PageReader
from adapters.engines.reading_report import report_page, to_json
from adapters.engines.signals import MAX_COUNT, MAX_FRACTION, EngineTable
from autoscaler.domain.reading import EngineReading, Histogram, Unknown
from autoscaler.domain.service import Engine
from benchmarks.fuzz_gateways import GatewayFuzzer, StatisticsFuzzer

SCRAPES = Path(__file__).parents[1] / "tests" / "fixtures" / "scrapes"
_LABELS = (
    *('engine="0"', 'engine="1"', 'model_name="m"', 'model="m"', 'model="n"', 'version="1"', 'pid="3"', 'tp_rank="1"'),
    *('dp_rank="1"', 'err="overloaded"', 'reason="REJECTED"', 'mode="decode"', 'mode="prefill_cache"', 'le="0.1"'),
    *('le="+Inf"', 'le="x"', 'le="NaN"', 'le=""', 'request_type="waiting"', 'request_type="scheduled"'),
    *('kv_cache_block_type="fraction"', 'sleep_state="awake"', 'block_size="16"', 'num_gpu_blocks="None"'),
    *(r'x="\"}{"', r'a="\\"', 'le = "1"', 'u="ü😀"'),
)
_BAD_LABELS = ('x="', "=", '"q"', "{", 'a="1" b="2"', "1")
_USUAL = ("0", "1", "2.5", "0.5", "3e2")
_EXTREME = (
    *("1.0000001", "-1", "-0", "NaN", "+Inf", "-Inf", "1e300", "1e-320", "9007199254740993", "18446744073709551615"),
    *("1 1712345678901", '1 # {a="b"} 1', "1e400", "007"),
)
_BAD_VALUES = ("1_000", "0x10", "x", "", "٣", "1 2 3", "1 x")
_KINDS = ("counter", "gauge", "histogram", "summary", "untyped", "unknown", "nonsense")
_PIECES = (
    b"\n",
    b"\r\n",
    b"{",
    b"}",
    b'"',
    b"\\",
    b" ",
    b"\t",
    b"#",
    b"\x00",
    b"\xff",
    b"NaN",
    b"-",
    b"e9",
    b"_",
    b"=",
)


def sample_names() -> list[str]:
    """Every name that some table reads, and a few that none does."""
    names = {name for table in TABLES for name in table.sample_names()}
    return [*sorted(names), "python_info", "DCGM_FI_DEV_GPU_UTIL", "te_queue_size"]


def _required(table: EngineTable) -> list[str]:
    prefix = table.prefixes[0]
    return [signal.aliases[0].family(prefix) for signal in table.signals if signal.name in table.required]


class Fuzzer:
    """Pages by number: the same number gives the same page."""

    def __init__(self) -> None:
        self._names = sample_names()
        self._families = {
            table.title: [name for name in self._names if name in set(table.sample_names())] for table in TABLES
        }
        self._recorded = [path.read_bytes() for path in sorted(SCRAPES.glob("*.prom"))]
        self._used = PageReader(cache_bytes=400_000)

    def page(self, number: int) -> bytes:
        """A page that is made up, or a damaged one."""
        dice = random.Random(number)
        return self._made_up(dice) if dice.random() < 0.8 else self._damaged(dice)

    def check(self, number: int) -> str:
        """What became of the page: an engine's name, or a reason. Raises AssertionError, and all that readers raise."""
        body = self.page(number)
        dice = random.Random(-number - 1)
        engine = Engine.AUTO if dice.random() < 0.8 else dice.choice(list(Engine))
        model = dice.choice([None, None, "m"])
        replica = f"r{number % 5}"
        answer = PageReader().read(body, replica=replica, at_s=1.0, engine=engine, model=model)
        again = self._used.read(body, replica=replica, at_s=1.0, engine=engine, model=model)
        assert repr(answer) == repr(again), "a reader that met other pages before reads it otherwise"
        third = self._used.read(body, replica=replica, at_s=1.0, engine=engine, model=model)
        assert repr(answer) == repr(third), "read the second time it reads otherwise"
        check_sensible(answer)
        json.loads(to_json(report_page(FetchedPage(body), engine=engine, model=model)))
        return str(answer.engine) if isinstance(answer, EngineReading) else answer.reason

    def _made_up(self, dice: random.Random) -> bytes:
        table = dice.choice(TABLES)
        names = self._families[table.title]
        kinds = (_USUAL, _USUAL + _EXTREME, _USUAL + _EXTREME + _BAD_VALUES)
        values = dice.choices(kinds, weights=(4, 5, 1))[0]
        labels = _LABELS + _BAD_LABELS if dice.random() < 0.05 else _LABELS
        lines = [f"{name} {dice.choice(_USUAL)}" for name in _required(table) if dice.random() < 0.9]
        for _ in range(dice.randrange(1, 40)):
            name = dice.choice(names if dice.random() < 0.995 else self._names)
            if dice.random() < 0.05:
                lines.append(f"# TYPE {name} {dice.choice(_KINDS)}")
                continue
            drawn = [dice.choice(labels) for _ in range(dice.choice((0, 0, 1, 1, 2, 3)))]
            chosen = list({label.partition("=")[0]: label for label in drawn}.values())
            braces = f"{{{','.join(chosen)}}}" if chosen or dice.random() < 0.1 else ""
            lines.append(f"{name}{braces} {dice.choice(values)}")
        if dice.random() < 0.01:
            lines.append(names[0] + '{a="' + "x" * (MAX_LINE_BYTES + 1) + '"} 1')
        return ("\n".join(lines) + ("\n" if dice.random() < 0.97 else "")).encode()

    def _damaged(self, dice: random.Random) -> bytes:
        page = dice.choice(self._recorded)
        for _ in range(dice.randrange(1, 8)):
            at = dice.randrange(len(page) + 1)
            put = dice.choice(_PIECES) if dice.random() < 0.8 else dice.randbytes(3)
            page = page[:at] + put + page[at + dice.choice((0, 0, 1, 5, 200)) :]
        return page[: dice.randrange(len(page) + 1)] if dice.random() < 0.1 else page


def check_sensible(answer: EngineReading | Unknown) -> None:
    """Every value in its range, every reason with a detail. Raises AssertionError."""
    if isinstance(answer, Unknown):
        assert answer.detail, answer
        return
    values = {field.name: getattr(answer, field.name) for field in fields(answer)} | {"batch_mean": answer.batch_mean}
    for name, value in values.items():
        if isinstance(value, Histogram):
            assert list(value.bounds) == sorted(set(value.bounds)), (name, value)
            assert list(value.counts) == sorted(value.counts), (name, value)
            assert all(0 <= count <= value.count for count in value.counts), (name, value)
            assert 0 <= value.count <= 2 * MAX_COUNT * len(TABLES), (name, value)
            assert 0 <= value.total < math.inf, (name, value)
        elif isinstance(value, float) and name != "at_s":
            upper = MAX_FRACTION if name == "kv_fraction" else 4 * MAX_COUNT
            assert 0 <= value <= upper, (name, value)


class _Checks(Protocol):
    def page(self, number: int) -> bytes: ...
    def check(self, number: int) -> str: ...


_FUZZERS: Mapping[str, Callable[[], _Checks]] = {
    "engines": Fuzzer,
    "gateways": GatewayFuzzer,
    "statistics": StatisticsFuzzer,
}


def main() -> None:
    """Check pages until the CPU time is spent."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--of", choices=list(_FUZZERS), default="engines", help="what is read (default: engines)")
    parser.add_argument("--seconds", type=float, default=600.0, help="CPU time (default: 600)")
    parser.add_argument("--seed", type=int, default=0, help="number of the first page (default: 0)")
    given = parser.parse_args()
    fuzzer, outcomes, number = _FUZZERS[given.of](), Counter[str](), given.seed
    while time.process_time() < given.seconds:
        try:
            outcomes[fuzzer.check(number)] += 1
        except Exception as error:
            print(f"page {number}: {type(error).__name__}: {error}\n{fuzzer.page(number)!r}")
            raise SystemExit(1) from error
        number += 1
    print(
        f"{number - given.seed} pages in {time.process_time():.0f} s of CPU, from number {given.seed} on; none failed"
    )
    print(", ".join([f"{outcome} {count}" for outcome, count in outcomes.most_common()]))


if __name__ == "__main__":
    main()
