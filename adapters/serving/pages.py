"""The dashboard's files: our own from this package, Plotly's from its. Nothing comes from the network."""

from __future__ import annotations

import gzip
import hashlib
import html
from dataclasses import dataclass
from functools import cache
from importlib import metadata, resources

from starlette.requests import Request
from starlette.responses import Response

from adapters.serving.answers import takes_gzip

PLOTLY = "plotly.min.js"
_MEDIA_TYPES = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "json": "application/json",
    "svg": "image/svg+xml",
}
_YEAR_S = 365 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticFile:
    """One file, compressed once. ``etag``: changes with the contents; ``lasting``: the address names the version."""

    packed: bytes
    media_type: str
    etag: str
    lasting: bool

    def answer(self, request: Request) -> Response:
        """The file, or 304 where the client has it."""
        caching = f"private, max-age={_YEAR_S}, immutable" if self.lasting else "no-cache"
        headers = {"etag": self.etag, "cache-control": caching, "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == self.etag:
            return Response(status_code=304, headers=headers)
        if takes_gzip(request):
            return Response(self.packed, headers={**headers, "content-encoding": "gzip"}, media_type=self.media_type)
        return Response(gzip.decompress(self.packed), headers=headers, media_type=self.media_type)


def dashboard_page() -> StaticFile:
    """The page at ``/``, which asks for this version's Plotly."""
    text = _own_files()["index.html"].decode()
    address = f"/static/{PLOTLY}"
    return _file(text.replace(address, f"{address}?v={metadata.version('plotly')}").encode(), "index.html")


@cache
def static_file(name: str) -> StaticFile | None:
    """A file under ``/static/``; None where there is none of that name."""
    if name == PLOTLY:
        from plotly.offline import get_plotlyjs  # noqa: PLC0415  (5 MB, read when the first dashboard is opened)

        return _file(get_plotlyjs().encode(), PLOTLY, lasting=True)
    body = _own_files().get(name)
    return None if body is None else _file(body, name)


def sign_in_page(message: str) -> str:
    """The page that asks for the token."""
    return _own_files()["sign-in.html"].decode().replace("<!--message-->", html.escape(message))


@cache
def _own_files() -> dict[str, bytes]:
    folder = resources.files("adapters.serving") / "static"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def _file(body: bytes, name: str, *, lasting: bool = False) -> StaticFile:
    return StaticFile(
        packed=gzip.compress(body, compresslevel=6, mtime=0),
        media_type=_MEDIA_TYPES[name.rpartition(".")[2]],
        etag=f'"{hashlib.sha256(body).hexdigest()[:32]}"',
        lasting=lasting,
    )
