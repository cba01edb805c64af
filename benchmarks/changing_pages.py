"""Recorded pages of each engine, with other values each time."""

from __future__ import annotations

import re
from pathlib import Path

SCRAPES = Path(__file__).parents[1] / "tests" / "fixtures" / "scrapes"
PAGES = (
    *("vllm_0.32_cpu_overloaded.prom", "sglang_0.4_overloaded.prom", "sglang_dp2_tp2.prom", "tgi_3_overloaded.prom"),
    *("triton_cpu_loaded.prom", "triton_trtllm_ensemble.prom", "trtllm_serve.prom", "nim_llama.prom"),
    *("dynamo_frontend.prom", "lmdeploy_dp2.prom"),
)
_VALUE = re.compile(rb"^([^#\n].*? )([0-9.e+-]+)$", re.MULTILINE)


class ChangingPage:
    """A recorded page with every whole value but zero (counts, buckets, gauges) raised by the same number.

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
            parts[index] = _raised(parts[index], step)
        return b"".join(parts)


def recorded(name: str) -> ChangingPage:
    """One of ``PAGES``."""
    return ChangingPage((SCRAPES / name).read_bytes())


def _raised(text: bytes, step: int) -> bytes:
    value = float(text)
    if value == 0:
        return text
    if value.is_integer():
        return b"%d" % (int(value) + step)
    return text if b"e" in text else text + b"%d" % (step % 10)
