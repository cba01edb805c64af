"""Public traces -> files of a cache, from where they are published, from a mirror, or from a folder.

A download that breaks off leaves a ``.part`` file that the next one continues. A file comes into the cache only after
it was checked.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import urllib3

from loadtests.workloads.public_traces import Form, PublicTrace
from loadtests.workloads.request_files import request_columns
from loadtests.workloads.rows import TraceFileError, header_of
from loadtests.workloads.servegen_archive import write_rate_table

_PIECE_BYTES = 1 << 20
_TIMEOUT = urllib3.Timeout(connect=20.0, read=60.0)
_RETRIES = urllib3.Retry(total=4, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504))

Progress = Callable[[int, int | None], None]
"""Told the bytes that are there, and how many there will be (None: not known)."""


class FetchError(Exception):
    """The trace could not be had: which, from where, and why."""


def fetch(trace: PublicTrace, *, cache: Path, origin: str | Path | None, progress: Progress) -> Path:
    """The trace's file in the cache, fetched if it is not there.

    ``origin``: a folder that holds files under their published names, the address of a mirror that does, or None for
    where it is published. Raises FetchError.
    """
    target = cache / trace.cached_file
    if target.is_file():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    if isinstance(origin, Path):
        published = origin / trace.file
        if not published.is_file():
            raise FetchError(f"{trace.name}: {origin} has no file {trace.file}")
    else:
        published = cache / f"{trace.file}.whole"
        if not published.is_file():
            address = trace.url if origin is None else f"{origin.rstrip('/')}/{trace.file}"
            _download(trace, address, published, progress)
    _check(trace, published)
    fresh = cache / f"unchecked-{trace.cached_file}"
    try:
        if trace.form is Form.SERVEGEN:
            write_rate_table(published, trace.inside or "", fresh)
        else:
            shutil.copyfile(published, fresh)
        _check_content(trace, fresh)
    except (OSError, TraceFileError) as error:
        fresh.unlink(missing_ok=True)
        raise FetchError(f"{trace.name}: {error}") from error
    fresh.replace(target)
    if published.parent == cache and trace.form is Form.REQUESTS:
        published.unlink()
    return target


def _download(trace: PublicTrace, address: str, whole: Path, progress: Progress) -> None:
    part = whole.with_suffix(".part")
    have = part.stat().st_size if part.is_file() else 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    pool = urllib3.PoolManager(timeout=_TIMEOUT, retries=_RETRIES)
    try:
        with pool.request(
            "GET", address, headers=headers, preload_content=False, enforce_content_length=False
        ) as answer:
            if answer.status == 416:
                # Nothing comes after what is there: it is whole, or of another file; the checks tell which.
                part.replace(whole)
                return
            if answer.status not in (200, 206):
                raise FetchError(f"{trace.name}: {address} answers with status {answer.status}")
            continued = answer.status == 206
            have = have if continued else 0
            length = answer.headers.get("Content-Length")
            total = have + int(length) if length is not None and length.isdecimal() else None
            with part.open("ab" if continued else "wb") as file:
                for piece in answer.stream(_PIECE_BYTES):
                    file.write(piece)
                    have += len(piece)
                    progress(have, total)
            if total is not None and have != total:
                raise FetchError(f"{trace.name}: {address} broke off after {have} of {total} bytes; run it again")
    except urllib3.exceptions.HTTPError as error:
        raise FetchError(
            f"{trace.name}: {address} can't be fetched ({error}). What came so far is kept, and the same command "
            "continues it; or download the file by other means and give its folder with --from"
        ) from error
    finally:
        pool.clear()
    part.replace(whole)


def _check(trace: PublicTrace, file: Path) -> None:
    if trace.sha256 is None:
        return
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != trace.sha256:
        _forget(file)
        raise FetchError(f"{trace.name}: {file.name} is not the published file: SHA-256 {found}, not {trace.sha256}")


def _check_content(trace: PublicTrace, file: Path) -> None:
    header = header_of(file)
    if trace.form is Form.REQUESTS and request_columns(header) is None:
        raise TraceFileError(f"{trace.file} has the columns {', '.join(header)}, which are no requests")
    if trace.requests is not None:
        with file.open("rb") as opened:
            rows = sum(1 for line in opened if line.strip())
        if rows - (0 if trace.file.endswith(".jsonl") else 1) != trace.requests:
            raise TraceFileError(f"{trace.file} has {rows} lines, where {trace.requests} requests are published")


def _forget(file: Path) -> None:
    """A wrong download is not kept; a user's own file is."""
    if file.suffix == ".whole":
        file.unlink()
