"""CPU time to read each engine's page, beside prometheus_client's full parse of the same pages, and to scrape a fleet.

``python -m benchmarks.scrape [--pages N] [--only PART] [--rounds N]``: every page differs from the last in all its
values, and each reading is checked against what was written into its page. The target is 0.2 ms for a page of 430
samples, in proportion for larger ones, and 0.1 ms at least for smaller ones: half of it a reading costs whatever its
page. The fleet is that of ``benchmarks.scrape_network``.
"""

from __future__ import annotations

import argparse
import time

from prometheus_client.parser import text_string_to_metric_families

from adapters.engines.page_reader import PageReader
from autoscaler.domain.reading import EngineReading, Unknown
from benchmarks import scrape_network
from benchmarks.changing_pages import PAGES, ChangingPage, recorded

TARGET_MS = 0.2
TARGET_SAMPLES = 430
LEAST_TARGET_MS = 0.1
_LIBRARY_PAGES = 50


def read_ms(page: ChangingPage, pages: int) -> float:
    """Mean CPU milliseconds of a reading, the first of a replica's pages left out."""
    reader = PageReader()
    first = reader.read(page.at(0), replica="one", at_s=0.0)
    spent_s = 0.0
    for step in range(1, pages + 1):
        body = page.at(step)
        begun_s = time.process_time()
        reading = reader.read(body, replica="one", at_s=float(step))
        spent_s += time.process_time() - begun_s
        check(first, reading, step)
    return 1000 * spent_s / pages


def library_ms(page: ChangingPage, pages: int) -> float:
    """Mean CPU milliseconds of prometheus_client's parse of all samples."""
    spent_s = 0.0
    for step in range(pages):
        body = page.at(step)
        begun_s = time.process_time()
        samples = sum([len(family.samples) for family in text_string_to_metric_families(body.decode())])
        spent_s += time.process_time() - begun_s
        if samples != page.samples:
            raise SystemExit(f"prometheus_client found {samples} samples, not {page.samples}")
    return 1000 * spent_s / pages


def check(first: EngineReading | Unknown, reading: EngineReading | Unknown, step: int) -> None:
    """Exit unless each count of the reading has grown by ``step`` for each series that it is made of."""
    if isinstance(first, Unknown) or isinstance(reading, Unknown):
        raise SystemExit(f"page {step}: {reading}")
    for name in ("waiting", "completed"):
        before, after = getattr(first, name), getattr(reading, name)
        grown = 0.0 if isinstance(before, Unknown) else after - before
        if not isinstance(before, Unknown) and (grown <= 0 or grown % step):
            raise SystemExit(f"page {step}: {name} was {before}, is {after}")


def main() -> None:
    """Print a line for each page, and the fleet's; exit 1 where one is above its target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=10_000, help="pages to read of each (default: 10000)")
    parser.add_argument("--only", default="", help="only pages with this in their name")
    parser.add_argument("--rounds", type=int, default=20, help="seconds of scraping a fleet; 0: none (default: 20)")
    given = parser.parse_args()
    print("page                            samples   ms of CPU  target  s for 10,000   prometheus_client  ratio")
    slow = []
    for name in PAGES:
        if given.only not in name:
            continue
        page = recorded(name)
        target = max(LEAST_TARGET_MS, TARGET_MS * page.samples / TARGET_SAMPLES)
        library = library_ms(page, min(given.pages, _LIBRARY_PAGES))
        ours = read_ms(page, given.pages)
        figures = (
            f"{page.samples:>7}{ours:>12.3f}{target:>8.3f}{10 * ours:>14.2f}{library:>20.3f}{library / ours:>7.0f}"
        )
        print(f"{name:<32}{figures}", flush=True)
        if ours > target:
            slow.append(name)
    if given.rounds and not scrape_network.compare(rounds=given.rounds):
        slow.append("the fleet")
    if slow:
        raise SystemExit(f"above the target: {', '.join(slow)}")


if __name__ == "__main__":
    main()
