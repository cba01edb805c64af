"""``python -m loadtests.engine_emulator --port N``: an emulated inference engine until TERM or Ctrl-C.

Like vLLM's default, it does not wait for requests in flight when it is told to stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal

from loadtests.emulator.server import EmulatorServer
from loadtests.emulator.settings import EmulatorSettings, parse


async def _run(settings: EmulatorSettings) -> None:
    serving = asyncio.ensure_future(EmulatorServer(settings).serve())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def main() -> None:
    """Entry of the command line. A port that is taken ends it with the operating system's message."""
    settings = parse()
    try:
        asyncio.run(_run(settings))
    except OSError as error:
        raise SystemExit(f"can't serve on {settings.host}:{settings.port}: {error}") from error


if __name__ == "__main__":
    main()
