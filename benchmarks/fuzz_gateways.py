"""Pages of gateways and answers of Triton's statistics that no server should send, for ``benchmarks.fuzz``.

Each must end in readings whose values lie in their ranges, or in a reason; and the same where it is read again.
"""

from __future__ import annotations

import json
import math
import random

from adapters.engines.foreign_gateways import ForeignPage, ForeignPageReader, JoinedForeignGateways, Told
from adapters.engines.gateway_joining import JoinedGateways
from adapters.engines.gateway_onlooking import Onlooker
from adapters.engines.gateway_pages import PREFIX, GatewayPageReader
from adapters.engines.gateway_tables import GATEWAY_TABLES
from adapters.engines.signals import MAX_COUNT
from adapters.engines.triton_statistics import Executions, executions_of
from autoscaler.domain.gateway import GatewayKind, GatewayPage
from autoscaler.domain.reading import GatewayReading, Histogram, Unknown
from autoscaler.domain.service import ServiceId

_OURS = (
    *("requests_total", "finished_total", "failed_total", "refused_total", "judged_total", "within_slo_total"),
    *("waiting", "in_flight"),
)
_PARTS = tuple(f"{name}_seconds_{part}" for name in ("ttft", "itl", "e2e") for part in ("bucket", "count", "sum"))
_SERVICES = ('service="a"', 'service="b/c"', 'service=""', "")
_LE = ('le="0.1"', 'le="1"', 'le="+Inf"', 'le="x"', 'le=""', 'le="NaN"', 'le="-1"', 'le="1e999"', 'le="1_0"', "")
_VALUES = (
    *("0", "1", "2.5", "3e2", "3", "3", "3", "3"),
    *("-1", "-0", "NaN", "+Inf", "-Inf", "1e300", "1e308", "1e400", "9007199254740993", "x", "", "1_0", "٣"),
)
_FOREIGN_LABELS = (
    *('model_name="a"', 'model_name="b"', 'requested_model="a"', 'model="a"', 'destination_service_name="a"'),
    *('envoy_cluster_name="a"', 'outcome="Dispatched"', 'outcome="x"', 'reporter="source"', 'x="y"'),
)
_JOINED = 20  # so many pages are joined before joining begins anew: sums stay within their range
_DAMAGE = (b"\n", b"{", b"}", b'"', b"\\", b" ", b"#", b"\x00", b"\xff", b"NaN", b"-", b"e9", b"_", b"=")
_NUMBERS: tuple[object, ...] = (
    0,
    1,
    7,
    -1,
    True,
    None,
    "5",
    "x",
    "",
    "-3",
    "9" * 30,
    "9" * 5000,
    10**400,
    1.5,
    math.nan,
    [],
    {},
)


class GatewayFuzzer:
    """Pages of our own and of others' gateways by number, read, joined and looked at for requests that wait."""

    def __init__(self) -> None:
        self._ours, self._others = GatewayPageReader(), ForeignPageReader()
        self._joined, self._joined_others = JoinedGateways(), JoinedForeignGateways()
        self._onlooker = Onlooker()

    def page(self, number: int) -> bytes:
        """Made up; some are damaged."""
        dice = random.Random(number)
        page = "\n".join(self._own_lines(dice) if self.kind(number) is None else self._foreign_lines(dice, number))
        body = (page + "\n").encode()
        for _ in range(dice.choice((0, 0, 0, 1, 4))):
            at = dice.randrange(len(body) + 1)
            body = body[:at] + dice.choice(_DAMAGE) + body[at + dice.choice((0, 1, 20)) :]
        return body

    def kind(self, number: int) -> GatewayKind | None:
        """Whose page it is; None for our own gateway's."""
        kinds = [None, *GATEWAY_TABLES]
        return kinds[number % len(kinds)]

    def check(self, number: int) -> str:
        """What became of it. Raises AssertionError, and all that readers raise."""
        body, kind = self.page(number), self.kind(number)
        if number % _JOINED == 0:
            self._joined, self._joined_others = JoinedGateways(), JoinedForeignGateways()
        page = GatewayPage(name="g", url="http://g/metrics", kind=kind or GatewayKind.GPU_AUTOSCALER)
        self._onlooker.waiting(page, body, frozenset({"a", "b/c"}))
        if kind is not None:
            return self._check_foreign(body, kind)
        read = self._ours.read(body, at_s=5.0)
        assert repr(read) == repr(GatewayPageReader().read(body, at_s=5.0)), "read again it reads otherwise"
        if isinstance(read, Unknown):
            assert read.detail
            return f"no page: {read.reason}"
        told = [each for each in read.values() if isinstance(each, GatewayReading)]
        for each in told:
            _check_reading(each)
            _check_reading(self._joined.join({"g": each}, at_s=5.0))
        return "ours" if told else "ours, no service"

    def _check_foreign(self, body: bytes, kind: GatewayKind) -> str:
        read = self._others.read(body, kind, at_s=5.0)
        if not isinstance(read, ForeignPage):
            assert read.detail
            return f"no page: {read.reason}"
        told = read.of("x/a", ())
        again = ForeignPageReader().read(body, kind, at_s=5.0)
        assert isinstance(again, ForeignPage)
        assert repr(told) == repr(again.of("x/a", ())), "read again it reads otherwise"
        if not isinstance(told, Told):
            return f"{kind}: {told.reason}"
        joined = self._joined_others.join(ServiceId("x/a"), {"g": told}, at_s=5.0)
        for value in (told.arrivals, joined.arrivals, told.waiting, told.in_flight):
            assert isinstance(value, Unknown) or 0 <= value < math.inf, told
        return str(kind)

    def _own_lines(self, dice: random.Random) -> list[str]:
        lines = [f"{PREFIX}start_time_seconds {dice.choice(('1000', '1000', '1000', 'NaN', '+Inf', '-5'))}"]
        odd = dice.random() < 0.7
        for service in dice.sample(_SERVICES, dice.randrange(1, 3)):
            lines += [f"{PREFIX}{name}{{{service}}} {_value(dice, odd=odd)}" for name in _OURS]
            for name in _PARTS:
                for le in dice.sample(_LE, 3) if odd and dice.random() < 0.5 else ('le="1"', 'le="+Inf"'):
                    labels = ",".join(filter(None, (service, le if name.endswith("bucket") else "")))
                    lines.append(f"{PREFIX}{name}{{{labels}}} {_value(dice, odd=odd)}")
        dice.shuffle(lines)
        return lines[: len(lines) - dice.choice((0, 0, 0, 1, 5))]

    def _foreign_lines(self, dice: random.Random, number: int) -> list[str]:
        kind = self.kind(number)
        assert kind is not None
        table = GATEWAY_TABLES[kind]
        names = [name for term in (*table.arrivals, *table.waiting, *table.in_flight) for name in term.names]
        names += [f"{start}x" for start in table.witness] + ["process_start_time_seconds"]
        lines = []
        for _ in range(dice.randrange(1, 20)):
            labels = f'{table.label}="a"' if dice.random() < 0.6 else ""
            more = dice.choice(_FOREIGN_LABELS)
            if not labels or (dice.random() < 0.3 and not more.startswith(f"{table.label}=")):
                labels = ",".join(filter(None, (labels, more)))
            lines.append(f"{dice.choice(names)}{{{labels}}} {_value(dice, odd=dice.random() < 0.3)}")
        return lines


class StatisticsFuzzer:
    """Answers of Triton's statistics by number."""

    def page(self, number: int) -> bytes:
        """The answer, as JSON."""
        return json.dumps(self._answer(random.Random(number))).encode()

    def check(self, number: int) -> str:
        """What became of it. Raises AssertionError, and all that reading raises."""
        found = executions_of(json.loads(self.page(number)))
        if isinstance(found, Executions):
            assert min(found.count, found.items, found.time_s) >= 0
            assert max(found.count, found.items, found.time_s) <= 2.0**64, found
            return "statistics"
        assert found.detail
        return found.reason

    def _answer(self, dice: random.Random) -> object:
        odd = dice.random() < 0.6
        models = [{"batch_stats": self._some(dice, odd=odd)} for _ in range(dice.randrange(3))]
        if odd and dice.random() < 0.2:
            return dice.choice([*_NUMBERS, {"model_stats": dice.choice(_NUMBERS)}, [models]])
        return {"model_stats": models}

    def _some(self, dice: random.Random, *, odd: bool) -> object:
        if odd and dice.random() < 0.1:
            return dice.choice(_NUMBERS)
        parts = ("compute_input", "compute_infer", "compute_output")
        return [
            {"batch_size": _number(dice, odd=odd)}
            | {
                part: {"count": _number(dice, odd=odd), "ns": _number(dice, odd=odd)}
                for part in parts
                if dice.random() < 0.9
            }
            for _ in range(dice.randrange(4))
        ]


def _number(dice: random.Random, *, odd: bool) -> object:
    return dice.choice(_NUMBERS) if odd and dice.random() < 0.3 else dice.choice((0, 3, "8", 2**40))


def _value(dice: random.Random, *, odd: bool) -> str:
    return dice.choice(_VALUES) if odd and dice.random() < 0.3 else "3"


def _check_reading(reading: GatewayReading) -> None:
    numbers = (reading.arrivals, reading.finished, reading.failed, reading.refused, reading.judged, reading.within_slo)
    for value in (*numbers, reading.waiting, reading.in_flight):
        assert 0 <= value <= _JOINED * MAX_COUNT, reading
    for histogram in (reading.ttft, reading.itl, reading.e2e):
        assert isinstance(histogram, Histogram)
        assert list(histogram.bounds) == sorted(set(histogram.bounds)), reading
        assert list(histogram.counts) == sorted(histogram.counts), reading
        assert all(0 <= count <= histogram.count for count in histogram.counts), reading
        assert 0 <= histogram.count <= _JOINED * MAX_COUNT, reading
        assert 0 <= histogram.total < math.inf, reading
