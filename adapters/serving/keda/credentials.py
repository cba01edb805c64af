"""TLS of the external scaler: certificates that are read anew when their files change."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path

from autoscaler.ports import RefusedError

_log = logging.getLogger(__name__)

_Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files. ``client_ca``: clients must show a certificate of this authority; None: they need none."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


class RotatingContext(ssl.SSLContext):
    """The files' content for new connections; while new content is of no use, the last that was goes on.

    A context of its own for each content: an authority can't be taken out of one once it is in.
    """

    _files: TlsFiles
    _stamp: _Stamp
    _current: ssl.SSLContext

    @classmethod
    def of(cls, files: TlsFiles) -> RotatingContext:
        """Raises RefusedError where the files can't be used."""
        context = cls(ssl.PROTOCOL_TLS_SERVER)
        context._files = files
        try:
            context._stamp = context._look()
            context._current = context._read()
        except OSError as error:
            names = ", ".join(map(str, context._paths))
            raise RefusedError(f"external scaler: TLS needs the PEM files {names}: {error}") from error
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
        self._renew()
        return self._current.wrap_bio(incoming, outgoing, server_side, server_hostname, session)

    def _renew(self) -> None:
        try:
            stamp = self._look()
            if stamp != self._stamp:
                self._current = self._read()
                self._stamp = stamp
                _log.info("external scaler: new certificate from %s", self._files.certificate)
        except OSError as error:
            _log.warning("external scaler: the last certificate stays in use: %s", error)

    def _look(self) -> _Stamp:
        found = [path.stat() for path in self._paths]
        return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in found)

    def _read(self) -> ssl.SSLContext:
        """Raises OSError (SSLError is one) where a file is missing, is no PEM, or the key is another certificate's."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["h2"])
        # A resumed session would bring back a client's certificate that was checked against the authority of its time.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        # An empty password, or a key behind one would be asked for at the terminal.
        context.load_cert_chain(self._files.certificate, self._files.key, password="")
        if self._files.client_ca is not None:
            context.load_verify_locations(self._files.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
            # Each authority in the file is an anchor, if it is an intermediate one too, as for gRPC and Go.
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context

    @property
    def _paths(self) -> tuple[Path, ...]:
        files = self._files
        return (
            (files.key, files.certificate)
            if files.client_ca is None
            else (files.key, files.certificate, files.client_ca)
        )
