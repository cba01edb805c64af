"""Starts emulated engines by forking: one has its modules already and shares their memory, and its crash is its own.

Standard input: ``start ID WORD...`` (the emulator's command line, words quoted as a shell does) and ``kill ID NUMBER``
(a signal). Standard output: ``ended ID CODE``. The end of standard input ends every engine.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys

from loadtests import engine_emulator


def main() -> None:
    """Serve until standard input ends."""
    running: dict[int, str] = {}

    def reap(*_: object) -> None:
        while running:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:  # a signal came between the outer call's wait for the last one and its note of it
                return
            if pid == 0:
                return
            os.write(1, f"ended {running.pop(pid)} {os.waitstatus_to_exitcode(status)}\n".encode())

    signal.signal(signal.SIGCHLD, reap)
    for line in sys.stdin:
        verb, key, *words = shlex.split(line)
        # A child that ends before it is noted would not be told of.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        if verb == "start":
            if (pid := os.fork()) == 0:
                _become_engine(words)
            running[pid] = key
        else:
            for pid in [pid for pid, each in running.items() if each == key]:
                os.kill(pid, int(words[0]))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    for pid in list(running):
        os.kill(pid, signal.SIGKILL)


def _become_engine(words: list[str]) -> None:
    """Run the emulator's own entry, and end with its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    # What it prints goes to the log, the host's answers to its reader.
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv = ["engine", *words]
    code = 0
    try:
        engine_emulator.main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException as error:
        print(f"engine {' '.join(words)}: {error!r}", file=sys.stderr)
        code = 1
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
