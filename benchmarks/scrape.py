"""CPU time to read one real vLLM 0.32 page, beside prometheus_client's full parse of the same pages.

``python -m benchmarks.scrape [--pages N]``: every page differs from the last in all its values, and each reading is
checked against what was written into its page.
"""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from adapters.engines.page_reader import PageReader
from autoscaler.domain.reading import EngineReading

PAGE = Path(__file__).parents[1] / "tests" / "fixtures" / "scrapes" / "vllm_0.32_cpu_overloaded.prom"
TARGET_MS = 0.2
_LIBRARY_PAGES = 100
_VALUE = re.compile(rb"^([^#\n].*? )([0-9.e+-]+)$", re.MULTILINE)


class ChangingPage:
    """The recorded page with every whole value (counts, buckets, gauges) raised by the same number.

    Cumulative buckets stay in order that way; values with a fraction, times and ratios among them, are kept, their last
    digit apart.
    """

    def __init__(self, recorded: bytes) -> None:
        self._parts = _VALUE.split(recorded)

    @property
    def samples(self) -> int:
        """Samples on the page."""
        return len(self._parts) // 3

    def at(self, step: int) -> bytes:
        """The page at this step."""
        parts = list(self._parts)
        for index in range(2, len(parts), 3):
            value = parts[index]
            parts[index] = b"%d.0" % (int(value[:-2]) + step) if value.endswith(b".0") else value + b"%d" % (step % 10)
        return b"".join(parts)


def read_ms(page: ChangingPage, pages: int) -> float:
    """Mean CPU milliseconds of a reading, the first of a replica's pages left out."""
    reader = PageReader()
    reader.read(page.at(0), replica="vllm-0", at_s=0.0)
    spent_s = 0.0
    for step in range(1, pages + 1):
        body = page.at(step)
        begun_s = time.process_time()
        reading = reader.read(body, replica="vllm-0", at_s=float(step))
        spent_s += time.process_time() - begun_s
        check(reading, step)
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


def check(reading: object, step: int) -> None:
    """Exit unless the reading shows this step's values."""
    if not isinstance(reading, EngineReading):
        raise SystemExit(f"page {step}: {reading}")
    expected = (272 + step, 128 + step, 24336 + step)
    if (reading.waiting, reading.running, reading.generation_tokens) != expected:
        raise SystemExit(f"page {step}: read {reading}, expected waiting, running, tokens {expected}")


def main() -> None:
    """Print both figures and their ratio; exit 1 above the target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=10_000, help="pages to read (default: 10000)")
    pages: int = parser.parse_args().pages
    page = ChangingPage(PAGE.read_bytes())
    library = library_ms(page, min(pages, _LIBRARY_PAGES))
    ours = read_ms(page, pages)
    print(f"page                     {PAGE.name}, {page.samples} samples, {len(page.at(0))} bytes")
    print(f"steady state             {ours:.3f} ms of CPU a page, over {pages} pages (target {TARGET_MS} ms)")
    print(f"prometheus_client        {library:.3f} ms of CPU a page, over {min(pages, _LIBRARY_PAGES)} pages")
    print(f"ratio                    {library / ours:.0f} : 1")
    if ours > TARGET_MS:
        raise SystemExit(f"above the target of {TARGET_MS} ms")


if __name__ == "__main__":
    main()
