"""A page as it was fetched, and the bounds of fetching one; without the HTTP client."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_TIMEOUT_S = 3.0
DEFAULT_MAX_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A body, decompressed, and its Content-Type ("" where none was given)."""

    body: bytes
    content_type: str = ""
