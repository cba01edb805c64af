"""The use of this machine's CPU and memory, as Triton shows it beside its own figures.

Sources as Triton's: ``/proc/stat`` and ``/proc/meminfo`` (src/metrics.cc of triton-inference-server/core). Where there
are none, nothing is shown, as with ``--allow-cpu-metrics=false``.
"""

from __future__ import annotations

from pathlib import Path

from loadtests.emulator.plain_series import PlainSeries

_SHARE, _TOTAL, _USED = "nv_cpu_utilization", "nv_cpu_memory_total_bytes", "nv_cpu_memory_used_bytes"
_IDLE = (3, 4)  # idle and iowait, of the times in /proc/stat (proc_stat(5))


class MachineUse:
    """Shows it on ``series``; the CPU's share is that since the page before."""

    def __init__(self, series: PlainSeries, *, proc: Path = Path("/proc")) -> None:
        self._series = series
        self._proc = proc
        self._before = (0, 0)
        series.declare("gauge", _SHARE, _TOTAL, _USED)

    def show(self) -> None:
        """Now."""
        try:
            times = [int(each) for each in (self._proc / "stat").read_text().splitlines()[0].split()[1:9]]
            sizes = (line.split() for line in (self._proc / "meminfo").read_text().splitlines())
            kib = {words[0]: int(words[1]) for words in sizes if len(words) > 1}
            memory, free = kib["MemTotal:"], kib["MemAvailable:"]
        except (OSError, ValueError, KeyError):
            return
        idle, total = sum(times[place] for place in _IDLE), sum(times)
        idle_before, before = self._before
        if total > before:
            self._series.set(_SHARE, min(1.0, max(0.0, 1 - (idle - idle_before) / (total - before))))
            self._before = idle, total
        self._series.set(_TOTAL, 1024 * memory)
        self._series.set(_USED, 1024 * (memory - free))
