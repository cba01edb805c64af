"""TLS of the external scaler: certificates that are read anew when their files change."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path

from adapters.serving.tls_contexts import ChosenContext, server_context, stamp_of
from autoscaler.ports import RefusedError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files. ``client_ca``: clients must show a certificate of this authority; None: they need none."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


def rotating_context(files: TlsFiles) -> ssl.SSLContext:
    """The files' content for new connections. Raises RefusedError where they can't be used."""
    return ChosenContext.by(_Rotating(files).current)


class _Rotating:
    """A context for each content of the files; while new content is of no use, the last that was goes on."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        try:
            self._stamp = stamp_of(self._paths)
            self._current = self._read()
        except OSError as error:
            names = ", ".join(map(str, self._paths))
            raise RefusedError(f"external scaler: TLS needs the PEM files {names}: {error}") from error

    def current(self) -> ssl.SSLContext:
        """What a connection that begins now is to be served by."""
        try:
            stamp = stamp_of(self._paths)
            if stamp != self._stamp:
                self._current = self._read()
                self._stamp = stamp
                _log.info("external scaler: new certificate from %s", self._files.certificate)
        except OSError as error:
            _log.warning("external scaler: the last certificate stays in use: %s", error)
        return self._current

    def _read(self) -> ssl.SSLContext:
        """Raises OSError (SSLError is one) where a file is missing, is no PEM, or the key is another certificate's."""
        context = server_context("h2")
        # An empty password, or a key behind one would be asked for at the terminal.
        context.load_cert_chain(self._files.certificate, self._files.key, password="")
        if self._files.client_ca is not None:
            context.load_verify_locations(self._files.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    @property
    def _paths(self) -> tuple[Path, ...]:
        files = self._files
        return (
            (files.key, files.certificate)
            if files.client_ca is None
            else (files.key, files.certificate, files.client_ca)
        )
