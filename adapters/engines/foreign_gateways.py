"""The pages of gateways that are not ours to what they say of a service, and several of them counted as one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from adapters.engines.exposition import Page, PageParser, Series, UnreadablePageError
from adapters.engines.gateway_tables import GATEWAY_TABLES, GatewayTable, Term
from adapters.engines.signals import MAX_COUNT, Kind
from autoscaler.domain.gateway import GatewayKind
from autoscaler.domain.reading import ForeignGatewayReading, Measured, Unknown, UnknownReason

_STARTED = "process_start_time_seconds"
_MAX_BYTES = 16 * 1024 * 1024
# A gateway that can't be found for a while, and returns, goes on from where it was; after that it is a stranger.
_REMEMBERED_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What one page says of one service. ``counted``: the counters' part of ``arrivals``, which runs back only at a new
    start. ``started_s``: None where the page does not tell it. ``at_least``: as of ForeignGatewayReading.
    """

    at_s: float
    started_s: float | None
    arrivals: float
    counted: float
    waiting: Measured
    in_flight: Measured
    at_least: bool


class ForeignPage:
    """One page, to be asked for each service behind that gateway."""

    def __init__(self, page: Page, table: GatewayTable, *, at_s: float) -> None:
        self._table = table
        self._at_s = at_s
        self._by_name: dict[str, list[tuple[Series, float]]] = {}
        for series, value in zip(page.series, page.values, strict=True):
            self._by_name.setdefault(series.name, []).append((series, value))

    def of(self, service: str, match: tuple[tuple[str, str], ...]) -> Told | Unknown:
        """Of a service, NAMESPACE/NAME. ``match``: labels of its series; none: the table's label has that NAME."""
        wanted = match or ((self._table.label, service.rpartition("/")[2]),)
        try:
            terms = [self._value(term, wanted) for term in self._table.arrivals]
            known = zip(self._table.arrivals, terms, strict=True)
            counted = [
                value for term, value in known if term.kind is Kind.COUNTER and term.sign > 0 and value is not None
            ]
            is_known = bool(counted)
            waiting = self._gauge(self._table.waiting, wanted, is_known=is_known)
            in_flight = self._gauge(self._table.in_flight, wanted, is_known=is_known)
        except _UnfitError as error:
            return error.unknown
        started = [value for _, value in self._by_name.get(_STARTED, ()) if math.isfinite(value)]
        return Told(
            at_s=self._at_s,
            started_s=started[0] if len(started) == 1 else None,
            arrivals=max(0.0, _total(self._table.arrivals, terms)),
            counted=sum(counted),
            waiting=waiting,
            in_flight=in_flight,
            # Labels that match nothing may be the wrong ones: what the replicas see counts too.
            at_least=self._table.ended_only or not is_known,
        )

    def _gauge(self, terms: tuple[Term, ...], wanted: Iterable[tuple[str, str]], *, is_known: bool) -> Measured:
        if not terms:
            return Unknown(UnknownReason.NOT_EXPORTED, f"{self._table.kind} does not tell it")
        if not is_known:
            return Unknown(UnknownReason.MISSING_SERIES, f"{self._table.kind} has no series of the service")
        return _total(terms, [self._value(term, wanted) for term in terms])

    def _value(self, term: Term, wanted: Iterable[tuple[str, str]]) -> float | None:
        """None where no series of the service is there. Raises _UnfitError."""
        for name in term.names:
            series = self._by_name.get(name)
            if series is None:
                continue
            ours = [
                (one, value)
                for one, value in series
                if set(wanted) <= set(one.labels) and (term.but is None or term.but not in one.labels)
            ]
            for one, value in ours:
                if not 0 <= value <= MAX_COUNT:
                    raise _UnfitError(UnknownReason.OUT_OF_RANGE, f"{one.brief()}: {value:g}")
            if ours:
                return sum(value for _, value in ours)
        if term.lacking:
            labels = ", ".join(f'{name}="{value}"' for name, value in wanted)
            raise _UnfitError(UnknownReason.MISSING_SERIES, f"{term.names[0]}{{{labels}}}: {term.lacking}")
        return None


class _UnfitError(ValueError):
    def __init__(self, reason: UnknownReason, detail: str) -> None:
        super().__init__(detail)
        self.unknown = Unknown(reason, detail)


def _total(terms: Iterable[Term], values: Iterable[float | None]) -> float:
    return sum(term.sign * (value or 0.0) for term, value in zip(terms, values, strict=True))


class ForeignPageReader:
    """Reads pages; remembers the series it has met. For one thread."""

    def __init__(self) -> None:
        names = {name for table in GATEWAY_TABLES.values() for term in _terms(table) for name in term.names}
        self._parser = PageParser((*names, _STARTED), max_wanted_bytes=_MAX_BYTES)

    def read(self, body: bytes, kind: GatewayKind, *, at_s: float) -> ForeignPage | Unknown:
        """The page of a gateway of that kind; Unknown where it isn't one, or can't be read."""
        table = GATEWAY_TABLES[kind]
        try:
            page = self._parser.parse(body)
        except UnreadablePageError as error:
            return Unknown(error.reason, error.detail)
        if not any(name.startswith(table.witness) for name in (*page.names, *page.types)):
            begins = " or ".join(table.witness)
            return Unknown(UnknownReason.MISSING_SERIES, f"no series begins with {begins}: is it the page of {kind}?")
        return ForeignPage(page, table, at_s=at_s)


def _terms(table: GatewayTable) -> tuple[Term, ...]:
    return (*table.arrivals, *table.waiting, *table.in_flight)


class JoinedForeignGateways:
    """Several gateways of others in front of one service, counted as one.

    What each has counted since the last look is added up. A stock with a gauge in it may read a little lower than
    before, since its parts are not read at one instant: that is no new start, and is made up for later.
    """

    def __init__(self) -> None:
        self._joined: ForeignGatewayReading | None = None
        self._last: dict[tuple[str, float | None], Told] = {}
        self._started_s: dict[str, float] = {}

    def join(self, service: str, told: Mapping[str, Told], *, at_s: float) -> ForeignGatewayReading:
        """What all of them counted since the first look, and hold now. ``told``: at least one, by gateway.

        Behind one address several processes may answer in turn: each is known by its start.
        """
        began_s = at_s if self._joined is None else self._joined.started_s
        arrivals = 0.0 if self._joined is None else self._joined.arrivals
        for name, now in sorted(told.items()):
            if now.started_s is not None:
                self._started_s[name] = now.started_s
            started_s = self._started_s.get(name)
            before = self._last.get((name, started_s))
            self._last[name, started_s] = now
            if before is None:
                # One that ran before it was looked at has counted what was never asked of this service's count.
                arrivals += now.arrivals if started_s is not None and started_s > began_s else 0.0
            elif now.counted < before.counted:
                # Without a start to tell, a count that runs back is a new start.
                arrivals += now.arrivals if started_s is None else 0.0
            else:
                highest = max(now.arrivals, before.arrivals)
                arrivals += highest - before.arrivals
                self._last[name, started_s] = replace(now, arrivals=highest)
        self._last = {key: last for key, last in self._last.items() if at_s - last.at_s <= _REMEMBERED_S}
        self._joined = ForeignGatewayReading(
            service=service,
            at_s=at_s,
            started_s=began_s,
            arrivals=arrivals,
            waiting=_sum(each.waiting for each in told.values()),
            in_flight=_sum(each.in_flight for each in told.values()),
            at_least=any(each.at_least for each in told.values()),
        )
        return self._joined


def _sum(values: Iterable[Measured]) -> Measured:
    total = 0.0
    for value in values:
        if isinstance(value, Unknown):
            return value
        total += value
    return total
