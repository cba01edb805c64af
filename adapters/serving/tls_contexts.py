"""What both TLS servers share: settings that are safe, and a context that may change while a server runs."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from pathlib import Path

Stamp = tuple[tuple[int, int, int], ...]
"""Of files: it differs where one was changed or put in another's place."""


class ChosenContext(ssl.SSLContext):
    """Hands each new connection to the context that is right by then.

    One that is current cannot be changed instead: an authority can't be taken out of a context once it is in.
    """

    _choose: Callable[[], ssl.SSLContext]

    @classmethod
    def by(cls, choose: Callable[[], ssl.SSLContext]) -> ChosenContext:
        """``choose`` is called once a connection, in the server's thread."""
        context = cls(ssl.PROTOCOL_TLS_SERVER)
        context._choose = choose
        return context

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT001, FBT002 - the library's own signature
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """As asyncio asks for it, once a connection."""
        return self._choose().wrap_bio(incoming, outgoing, server_side, server_hostname, session)


def server_context(protocol: str) -> ssl.SSLContext:
    """A context for a server of one application protocol ("h2", "http/1.1"), without certificate or authorities yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([protocol])
    # Each authority that is listed is an anchor, if it is an intermediate one too, as for gRPC and Go.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # A resumed session would bring back a client's certificate that was checked against the authorities of its time.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    return context


def stamp_of(paths: Iterable[Path]) -> Stamp:
    """Raises OSError for one that isn't there."""
    found = [path.stat() for path in paths]
    return tuple([(each.st_mtime_ns, each.st_size, each.st_ino) for each in found])
