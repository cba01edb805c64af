"""The gateway's log: what happened, never what was in a request. Prompts, keys and headers are not ours to keep.

The libraries put pieces of requests into their messages and exceptions ("Invalid header value char: ..."), so of
theirs only the kind of the error and its place in the code are logged.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import traceback
from typing import TYPE_CHECKING, Any

from aiohttp.http_exceptions import HttpProcessingError

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_OURS = "adapters.local."

_log = logging.getLogger(_OURS + "gateway")


def log_to_stderr() -> None:
    """Set up the log of this process."""
    output = logging.StreamHandler()
    output.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    output.addFilter(_strip_contents)
    logging.basicConfig(level=logging.INFO, handlers=[output])
    sys.unraisablehook = _log_unraisable


def log_loop_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The event loop's exception handler."""
    _log.error("unhandled: %s", _place_of(context.get("exception")))


def _log_unraisable(raised: UnraisableHookArgs) -> None:
    _log.error("ignored: %s", _place_of(raised.exc_value))


def _strip_contents(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError):
        return False  # a client that does not speak HTTP; it was told so, and must not fill our disk
    if not record.name.startswith(_OURS):
        record.msg, record.args = f"{record.name}: {_place_of(error)}", None
    record.exc_info = record.exc_text = None
    return True


def _place_of(error: BaseException | None) -> str:
    if error is None:
        return "no exception"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"
