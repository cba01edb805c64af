"""What a page says, in short: every known signal as a number, every unknown one as its reason."""

from __future__ import annotations

from pathlib import Path

from adapters.engines.page_reader import PageReader
from autoscaler.domain.reading import EngineReading, Histogram, Unknown, UnknownReason
from autoscaler.domain.service import Engine

SCRAPES = Path(__file__).parents[1] / "fixtures" / "scrapes"
SIGNALS = (
    *(
        "waiting",
        "running",
        "kv_fraction",
        "kv_capacity_tokens",
        "kv_block_tokens",
        "completed",
        "refused",
        "preemptions",
    ),
    *("prompt_tokens", "generation_tokens", "arrivals_stock", "started_s"),
    *("pending", "exec_count", "exec_items", "exec_sum_s", "steps"),
    *("ttft", "itl", "request_itl", "e2e", "queue_time", "prompt_length", "output_length"),
)


def read(page: str | bytes, *, engine: Engine = Engine.AUTO, model: str | None = None) -> EngineReading:
    """The reading of a page that can be read. ``page``: bytes, or a text."""
    body = page.encode() if isinstance(page, str) else page
    reading = PageReader().read(body, replica="r", at_s=7.0, engine=engine, model=model)
    assert isinstance(reading, EngineReading), reading
    return reading


def refused(page: str | bytes, *, engine: Engine = Engine.AUTO) -> Unknown:
    """Why a page can't be read."""
    body = page.encode() if isinstance(page, str) else page
    answer = PageReader().read(body, replica="r", at_s=7.0, engine=engine)
    assert isinstance(answer, Unknown), answer
    return answer


def known(reading: EngineReading) -> dict[str, float | tuple[float, float]]:
    """The known signals: a number, or (count, sum) of a histogram."""
    found: dict[str, float | tuple[float, float]] = {}
    for name in SIGNALS:
        value = getattr(reading, name)
        if not isinstance(value, Unknown):
            found[name] = (value.count, value.total) if isinstance(value, Histogram) else value
    return found


def reason(reading: EngineReading, name: str) -> UnknownReason:
    """Why this signal is unknown."""
    value = getattr(reading, name)
    assert isinstance(value, Unknown), value
    return value.reason


def without(page: str, *families: str) -> str:
    """The page without these families' samples and declarations."""
    kept = [line for line in page.splitlines() if not any(part in line for part in families)]
    return "\n".join(kept) + "\n"
