"""What is shown to Prometheus with each query, read from its files each time, so that a rotated secret is used."""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from adapters.prometheus.settings import PrometheusSettings, Secret, TlsSettings
from autoscaler.domain.reading import Unknown, UnknownReason


@dataclass(frozen=True, slots=True)
class Shown:
    """Headers of a query, and how the server's certificate is judged (True: as the system does)."""

    headers: Mapping[str, str]
    tls: ssl.SSLContext | bool


class Credentials:
    """Reads secrets and certificates when asked; a TLS context is made anew only where a file has changed."""

    def __init__(self, settings: PrometheusSettings) -> None:
        self._settings = settings
        self._files: tuple[bytes, ...] | None = None
        self._tls: ssl.SSLContext | bool = True

    def current(self) -> Shown | Unknown:
        """What to show now; Unknown where a file can't be read."""
        settings = self._settings
        try:
            headers = dict(settings.headers)
            if settings.bearer_token is not None:
                headers["Authorization"] = f"Bearer {_text(settings.bearer_token)}"
            elif settings.username is not None:
                password = "" if settings.password is None else _text(settings.password)
                both = f"{_text(settings.username)}:{password}".encode()
                headers["Authorization"] = f"Basic {b64encode(both).decode()}"
            return Shown(headers, self._context(settings.tls))
        except (OSError, ValueError) as error:  # ValueError: no text, or no certificate
            named = getattr(error, "filename", None)
            detail = f"{named or 'a secret or certificate'} can't be used: {getattr(error, 'strerror', None) or error}"
            return Unknown(UnknownReason.UNREACHABLE, detail)

    def _context(self, tls: TlsSettings) -> ssl.SSLContext | bool:
        if tls == TlsSettings():
            return True
        files = tuple([_bytes(file) for file in (tls.ca_file, tls.certificate_file, tls.key_file)])
        if files != self._files:
            context = ssl.create_default_context(cafile=tls.ca_file)
            if not tls.verify:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            if tls.certificate_file is not None:
                context.load_cert_chain(tls.certificate_file, tls.key_file)
            self._files, self._tls = files, context
        return self._tls


def _text(secret: Secret) -> str:
    text = secret.value if secret.file is None else secret.file.read_text(encoding="utf-8").strip()
    if text is None or not text.isprintable():
        raise ValueError("a secret is missing, or holds what no header can")
    return text


def _bytes(file: Path | None) -> bytes:
    return b"" if file is None else file.read_bytes()
