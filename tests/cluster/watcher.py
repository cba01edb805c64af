"""Kills what a test run started, once that run is gone, however it ended: ``kill -9`` of it included.

Standard input bears one line for each process group that begins (``+NUMBER``) or has ended (``-NUMBER``). Its end is
the end of the test run, which alone holds the other side of the pipe.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys


def main() -> None:
    """Follow standard input to its end, then kill the groups that are left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line[1:])
        if line.startswith("+"):
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
