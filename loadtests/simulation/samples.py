"""What a rival's collector keeps of the replicas' pages at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from autoscaler.domain.reading import EngineReading, Histogram, is_known

Sums = Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Sample:
    """By replica, where it told: gauges, and sums since its engine's start as (count, total). ``held``: requests in
    front of the replicas. ``at_s``: when the newest of the pages was made; ``counted_s``: when they were on average,
    which is how far their counts reach.
    """

    at_s: float
    counted_s: float
    ready: tuple[str, ...]
    running: Mapping[str, float]
    waiting: Mapping[str, float]
    kv_fraction: Mapping[str, float]
    held: float
    ttft: Sums
    itl: Sums
    prompts: Sums
    outputs: Sums

    @classmethod
    def of(
        cls, pages: Mapping[str, EngineReading], *, made_s: Sequence[float], ready: tuple[str, ...], held: float
    ) -> Sample:
        """From the pages that came, made at these times of the run; without pages, the time of the look."""
        return cls(
            at_s=max(made_s),
            counted_s=fmean(made_s),
            ready=ready,
            running=_gauge(pages, "running"),
            waiting=_gauge(pages, "waiting"),
            kv_fraction=_gauge(pages, "kv_fraction"),
            held=held,
            ttft=_sums(pages, "ttft"),
            itl=_sums(pages, "itl"),
            prompts=_sums(pages, "prompt_length"),
            outputs=_sums(pages, "output_length"),
        )


def mean_since(now: Sums, then: Sums) -> float | None:
    """Mean of what was observed in between, over all replicas; None where nothing was."""
    number = total = 0.0
    for name, (count, summed) in now.items():
        before = then.get(name, (0.0, 0.0))
        if count < before[0]:  # its engine started anew
            before = (0.0, 0.0)
        number += count - before[0]
        total += summed - before[1]
    return total / number if number > 0 else None


def largest(samples: Sequence[Mapping[str, float]], name: str) -> float:
    """The largest value of one replica; NaN where it told none."""
    return max((each[name] for each in samples if name in each), default=float("nan"))


def _gauge(pages: Mapping[str, EngineReading], signal: str) -> dict[str, float]:
    return {name: value for name, page in pages.items() if is_known(value := getattr(page, signal))}


def _sums(pages: Mapping[str, EngineReading], signal: str) -> dict[str, tuple[float, float]]:
    found = {name: getattr(page, signal) for name, page in pages.items()}
    return {name: (each.count, each.total) for name, each in found.items() if isinstance(each, Histogram)}
