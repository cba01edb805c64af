"""TLS of the server, with a certificate and trusted CAs that change while it runs."""

from __future__ import annotations

import ssl
import threading
from pathlib import Path

from adapters.serving.tls_contexts import ChosenContext, Stamp, server_context, stamp_of
from autoscaler.domain.caller import CallerTrust
from autoscaler.ports import RefusedError


class ServingTls:
    """Keeps the context current. Raises RefusedError, naming the key, where the first certificate can't be used."""

    def __init__(self, certificate_file: Path, key_file: Path) -> None:
        self._certificate_file = certificate_file
        self._key_file = key_file
        self._lock = threading.Lock()
        self._trust = CallerTrust()
        self._stamp = self._stamped()
        self._latest = self._built(self._trust)
        self.context = ChosenContext.by(lambda: self._latest)

    def set_trust(self, trust: CallerTrust) -> None:
        """Take client certificates of these CAs from now on. Safe from any thread.

        Raises RefusedError, and keeps the last, where they can't be read.
        """
        _trust_in(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), trust)
        with self._lock:
            self._trust = trust
            try:
                self._latest = self._built(trust)
            except RefusedError:  # the server's own files are being replaced; the next look at them will do it
                self._stamp = ()

    def read_again(self) -> bool:
        """Take the files' certificate if they have changed; True if so.

        Raises RefusedError, and keeps the last, where it can't be used (half written, say); the next call tries again.
        """
        stamp = self._stamped()
        if stamp == self._stamp:
            return False
        with self._lock:
            self._latest = self._built(self._trust)
        self._stamp = stamp
        return True

    def _stamped(self) -> Stamp:
        try:
            return stamp_of((self._certificate_file, self._key_file))
        except OSError as error:
            raise RefusedError(f"{self._key_of(error.filename)}: {error.filename}: {error.strerror}") from error

    def _key_of(self, path: object) -> str:
        return "externalMetrics." + ("keyFile" if str(path) == str(self._key_file) else "certificateFile")

    def _built(self, trust: CallerTrust) -> ssl.SSLContext:
        context = server_context("http/1.1")
        # The probes of kubelets show no certificate; one that is shown must be good.
        context.verify_mode = ssl.CERT_OPTIONAL
        try:
            context.load_cert_chain(self._certificate_file, self._key_file, password=_no_password)
        except OSError as error:
            raise RefusedError(
                f"externalMetrics.certificateFile, externalMetrics.keyFile: {self._certificate_file} and "
                f"{self._key_file} are no PEM certificate and its key: {error}"
            ) from error
        _trust_in(context, trust)
        return context


def _trust_in(context: ssl.SSLContext, trust: CallerTrust) -> None:
    authorities = f"{trust.client_ca_pem}\n{trust.front_proxy_ca_pem}"
    if not authorities.strip():
        return
    try:
        context.load_verify_locations(cadata=authorities)
    except (ssl.SSLError, ValueError) as error:
        raise RefusedError(
            "client-ca-file, requestheader-client-ca-file of ConfigMap "
            f"kube-system/extension-apiserver-authentication: no PEM certificates: {error}"
        ) from error


def _no_password() -> str:
    return ""  # an encrypted key is refused; the library would ask for its password at the terminal
