"""Samples of many series put together again as what they were: scrapes of targets, each a page at one moment.

Prometheus gives all samples of one scrape its one time, and writes ``up`` with each (Prometheus docs, "Jobs and
instances"). So the samples at a target's latest time are its latest page, whole, and a series that has no sample at
that time was not on it, though a query would still show its last value for five minutes (docs, "Querying basics",
Staleness).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from adapters.prometheus.answers import RangedSeries
from autoscaler.domain.reading import Unknown, UnknownReason

UP = "up"
# What no page writes itself, where no ``up`` shows what else service discovery has put on the series.
_USUAL_TARGET_LABELS = frozenset({"job", "instance", "namespace", "pod", "cluster", "prometheus"})
# Two jobs that scrape one pod may differ in these.
_OF_A_JOB = frozenset({"job", "endpoint", "service", "container", "metrics_path", "scheme", "prometheus"})
# Samples that are sent on by several senders at a time come in parts; after so long the parts are there.
_SETTLING_S = 3.0
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Scrape:
    """One page: when it was fetched (Prometheus's clock), how many samples it has, and its text."""

    at_s: float
    samples: int
    page: bytes


@dataclass(frozen=True, slots=True)
class Target:
    """What Prometheus knows of one target: its labels, and its series of engines. ``up``: time -> 1 or 0."""

    labels: Mapping[str, str]
    up: Mapping[float, float]
    series: Sequence[RangedSeries]
    stripped: frozenset[str]

    def spacing_s(self) -> float | None:
        """Least time between two of its scrapes; None where fewer are known."""
        times = sorted(self.up or {at_s for each in self.series for at_s, _ in each.samples})
        return min((after - before for before, after in pairwise(times)), default=None)

    def latest(self, *, now_s: float) -> Scrape | Unknown:
        """Its latest scrape, or why that is none."""
        counts = Counter(at_s for each in self.series for at_s, _ in each.samples)
        last_up_s = max(self.up, default=None)
        if last_up_s is not None and self.up[last_up_s] != 1 and last_up_s >= max(counts, default=0.0):
            return Unknown(UnknownReason.UNREACHABLE, f"Prometheus can't scrape {self._name()}")
        if not counts:
            return Unknown(UnknownReason.EMPTY_PAGE, f"Prometheus scrapes {self._name()}, no series of an engine there")
        times = sorted(counts, reverse=True)
        if last_up_s is not None and last_up_s > times[0] and now_s - last_up_s > _SETTLING_S:
            return Unknown(UnknownReason.EMPTY_PAGE, f"{self._name()}: its last page has no series of an engine")
        at_s = times[0]
        if len(times) > 1 and now_s - at_s <= _SETTLING_S and counts[at_s] < counts[times[1]]:
            at_s = times[1]
        return Scrape(at_s, counts[at_s], self._page(at_s))

    def _page(self, at_s: float) -> bytes:
        lines = [
            f"{series.name}{_spelled(self._own_labels(series.labels))} {value}\n"
            for series in self.series
            for sampled_s, value in series.samples
            if sampled_s == at_s
        ]
        return "".join(sorted(lines, key=_series_text)).encode()

    def _own_labels(self, labels: Mapping[str, str]) -> list[tuple[str, str]]:
        """As the engine wrote them: Prometheus renames those that its own would hide (docs, honor_labels)."""
        own = {name: value for name, value in labels.items() if name not in self.stripped}
        for name in self.stripped:
            hidden = own.pop(f"exported_{name}", None)
            if hidden is not None:
                own[name] = hidden
        return sorted(own.items())

    def _name(self) -> str:
        return f"{self.labels.get('job') or 'a job'}'s {self.labels.get('instance') or 'target'}"


def targets_of(series: Iterable[RangedSeries], known_labels: Collection[str]) -> list[Target]:
    """The targets that series of one replica are of. ``known_labels``: some that are no page's own."""
    found = list(series)
    shown = {name for each in found if each.name == UP for name in each.labels}
    stripped = frozenset(shown or _USUAL_TARGET_LABELS) | frozenset(known_labels)
    grouped: dict[Labels, list[RangedSeries]] = {}
    for each in found:
        grouped.setdefault(tuple(sorted((k, v) for k, v in each.labels.items() if k in stripped)), []).append(each)
    return [
        Target(
            dict(labels),
            {at_s: float(value) for each in members if each.name == UP for at_s, value in each.samples},
            [each for each in members if each.name != UP],
            stripped,
        )
        for labels, members in grouped.items()
    ]


def latest_scrape(
    targets: Sequence[Target], *, address: str | None, replica_labels: Collection[str], now_s: float
) -> Scrape | Unknown:
    """The latest page of a replica that listens at ``address`` (host:port), or why there is none.

    Where several Prometheis or several jobs scrape it, one scrape counts, never their sum: of the job that keeps most
    of the page, the newest.
    """
    there = [each for each in targets if each.labels.get("instance") == address] or list(targets)
    telling = [each for each in there if each.series] or there
    differing = _differing(telling, frozenset(replica_labels) | _OF_A_JOB)
    if differing is not None:
        return Unknown(UnknownReason.CONTRADICTION, differing)
    scrapes = [(each.labels.get("job", ""), each.latest(now_s=now_s)) for each in telling]
    good = [(job, scrape) for job, scrape in scrapes if not isinstance(scrape, Unknown)]
    if not good:
        problems = [scrape for _, scrape in scrapes if isinstance(scrape, Unknown)]
        return problems[0] if problems else Unknown(UnknownReason.MISSING_SERIES, "Prometheus knows no such target")
    most = {job: max(scrape.samples for each, scrape in good if each == job) for job, _ in good}
    chosen = max(most, key=lambda job: (most[job], job))
    return max((scrape for job, scrape in good if job == chosen), key=lambda scrape: scrape.at_s)


def _differing(targets: Sequence[Target], harmless: Collection[str]) -> str | None:
    """The first label that tells two targets apart, so that they can't both be this replica; None where none does."""
    for name in sorted({name for each in targets for name in each.labels} - set(harmless)):
        values = sorted({each.labels[name] for each in targets if name in each.labels})
        if len(values) > 1:
            told = f"several targets could be this replica, with {name} {', '.join(values[:4])}"
            return f"{told}; choose by prometheus.matchers or say prometheus.replicaLabels"
    return None


def _spelled(labels: Sequence[tuple[str, str]]) -> str:
    inner = ",".join([f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels])
    return f"{{{inner}}}" if inner else ""


def _series_text(line: str) -> str:
    """All before the value: pages of the same series then look the same but for their values."""
    return line.rpartition(" ")[0]
