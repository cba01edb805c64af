"""TLS of the external scaler: certificates that are read anew when their files change."""

from __future__ import annotations

import logging
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path

import grpc

from autoscaler.ports import RefusedError

_log = logging.getLogger(__name__)

_Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files. ``client_ca``: clients must show a certificate of this authority; None: they need none."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


class RotatingCertificate:
    """The files' content for new connections; while new content is of no use, the last that was goes on."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises RefusedError where the files can't be used."""
        self._files = files
        self._lock = threading.Lock()
        try:
            self._stamp = self._look()
            self._current = self._read()
        except OSError as error:
            names = ", ".join(map(str, self._paths))
            raise RefusedError(f"external scaler: TLS needs the PEM files {names}: {error}") from error

    def credentials(self) -> grpc.ServerCredentials:
        """For a port; each new connection asks for the current content."""
        return grpc.dynamic_ssl_server_credentials(
            self._current, self._fetch, require_client_authentication=self._files.client_ca is not None
        )

    def _fetch(self) -> grpc.ServerCertificateConfiguration:
        """In a thread of gRPC's; what it raised would be lost."""
        with self._lock:
            try:
                stamp = self._look()
                if stamp != self._stamp:
                    self._current = self._read()
                    self._stamp = stamp
                    _log.info("external scaler: new certificate from %s", self._files.certificate)
            except OSError as error:
                _log.warning("external scaler: the last certificate stays in use: %s", error)
            return self._current

    def _look(self) -> _Stamp:
        found = [path.stat() for path in self._paths]
        return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in found)

    def _read(self) -> grpc.ServerCertificateConfiguration:
        """Raises OSError (SSLError is one) where a file is missing, is no PEM, or the key is another certificate's."""
        key, certificate, *client_ca = [path.read_bytes() for path in self._paths]
        probe = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        probe.load_cert_chain(self._files.certificate, self._files.key, password="")  # or it would ask a terminal
        if client_ca:
            probe.load_verify_locations(self._files.client_ca)
        return grpc.ssl_server_certificate_configuration([(key, certificate)], client_ca[0] if client_ca else None)

    @property
    def _paths(self) -> tuple[Path, ...]:
        files = self._files
        return (
            (files.key, files.certificate)
            if files.client_ca is None
            else (files.key, files.certificate, files.client_ca)
        )
