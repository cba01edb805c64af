"""One page for a person to look at: by address, from a file, or piped in."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import BinaryIO

from adapters.engines.fetched import DEFAULT_MAX_BYTES, DEFAULT_TIMEOUT_S, FetchedPage
from autoscaler.domain.reading import Unknown, UnknownReason


def fetch_source(
    source: str,
    *,
    stdin: BinaryIO,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> FetchedPage | Unknown:
    """The page at an http(s) address, in a file, or, for "-", on ``stdin``; or why there is none."""
    if source.startswith(("http://", "https://")):
        return asyncio.run(_fetch_once(source, timeout_s, max_bytes))
    try:
        if source == "-":
            body = stdin.read(max_bytes + 1)
        else:
            with Path(source).open("rb") as file:
                body = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        return Unknown(UnknownReason.UNREACHABLE, f"{source}: {getattr(error, 'strerror', None) or error}")
    if len(body) > max_bytes:
        return Unknown(UnknownReason.PAGE_TOO_LARGE, f"more than {max_bytes} bytes")
    # A page saved by hand often lost its last line feed.
    return FetchedPage(body if body.endswith(b"\n") or not body else body + b"\n")


async def _fetch_once(url: str, timeout_s: float, max_bytes: int) -> FetchedPage | Unknown:
    from adapters.engines.fetching import fetch_page, open_session  # a file needs no HTTP client, which takes long

    async with open_session(max_connections=1) as session:
        return await fetch_page(session, url, timeout_s=timeout_s, max_bytes=max_bytes)
