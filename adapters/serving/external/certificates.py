"""Whose certificate a client showed: the front proxy's, a user's, or one that says nothing here.

The TLS library has proven that the client holds the key, and a chain to any of the trusted CAs. Here it is settled
which of them signed it, without a CA in between, and that the certificate is meant for this use at this time. It is
judged at every request, not only when the connection was made: a certificate runs out, and a CA is taken away, while a
connection lives on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from autoscaler.domain.caller import CallerTrust, User

_Extension = TypeVar("_Extension", bound=x509.ExtensionType)

_MOST_JUDGED = 1024
_CLIENT_USES = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What one certificate is good for, from ``from_s`` to ``until_s``: one user, or (None) to name any in headers."""

    user: User | None
    from_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class _Authority:
    certificate: x509.Certificate
    from_s: float
    until_s: float


class PeerJudge:
    """Judges certificates by one ``CallerTrust``; remembers the latest."""

    def __init__(self, trust: CallerTrust) -> None:
        """Raises ValueError, naming the key of the ConfigMap, where a CA can't be read."""
        self.trust = trust
        self._front_proxy_cas = _authorities("requestheader-client-ca-file", trust.front_proxy_ca_pem)
        self._client_cas = _authorities("client-ca-file", trust.client_ca_pem)
        self._front_proxy_names = frozenset(trust.front_proxy_names)
        self._judged: dict[bytes, tuple[Standing, ...]] = {}

    def standings(self, der: bytes, now_s: float) -> list[Standing]:
        """All that a certificate in DER is good for now, the proxy's word first; empty for nothing."""
        judged = self._judged.get(der)
        if judged is None:
            if len(self._judged) >= _MOST_JUDGED:
                self._judged.clear()
            judged = self._judged[der] = tuple(self._judge(der))
        return [standing for standing in judged if standing.from_s <= now_s <= standing.until_s]

    def _judge(self, der: bytes) -> list[Standing]:
        """All that it is good for, each with its time."""
        try:
            certificate = x509.load_der_x509_certificate(der)
            if not _fit(certificate):
                return []
            name = _single(certificate.subject, NameOID.COMMON_NAME)
            groups = tuple(
                str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
            )
        except (ValueError, x509.DuplicateExtension):
            return []
        found = []
        if not self._front_proxy_names or name in self._front_proxy_names:
            for authority in _signers(certificate, self._front_proxy_cas):
                from_s, until_s = _valid(certificate, authority)
                found.append(Standing(user=None, from_s=from_s, until_s=until_s))
        if name:
            for authority in _signers(certificate, self._client_cas):
                from_s, until_s = _valid(certificate, authority)
                found.append(Standing(user=User(name=name, groups=groups), from_s=from_s, until_s=until_s))
        return found


def _authorities(key: str, pem: str) -> tuple[_Authority, ...]:
    if not pem.strip():
        return ()
    try:
        certificates = x509.load_pem_x509_certificates(pem.encode())
        return tuple(
            _Authority(each, each.not_valid_before_utc.timestamp(), each.not_valid_after_utc.timestamp())
            for each in certificates
            if _may_sign(each)
        )
    except (ValueError, x509.DuplicateExtension) as error:
        raise ValueError(
            f"{key} of ConfigMap kube-system/extension-apiserver-authentication holds no PEM certificates: {error}"
        ) from error


def _may_sign(certificate: x509.Certificate) -> bool:
    constraints = _extension(certificate, x509.BasicConstraints)
    usage = _extension(certificate, x509.KeyUsage)
    return constraints is not None and constraints.ca and (usage is None or usage.key_cert_sign)


def _fit(certificate: x509.Certificate) -> bool:
    """True for an end entity's certificate that may be used by a client; without a list of uses it may (RFC 5280)."""
    constraints = _extension(certificate, x509.BasicConstraints)
    if constraints is not None and constraints.ca:
        return False
    uses = _extension(certificate, x509.ExtendedKeyUsage)
    return uses is None or any(use in uses for use in _CLIENT_USES)


def _signers(certificate: x509.Certificate, authorities: Sequence[_Authority]) -> list[_Authority]:
    return [each for each in authorities if _signed_by(certificate, each.certificate)]


def _signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _valid(certificate: x509.Certificate, authority: _Authority) -> tuple[float, float]:
    return (
        max(authority.from_s, certificate.not_valid_before_utc.timestamp()),
        min(authority.until_s, certificate.not_valid_after_utc.timestamp()),
    )


def _single(name: x509.Name, kind: x509.ObjectIdentifier) -> str:
    """The attribute's value, "" where it is missing or there is more than one."""
    values = [str(each.value) for each in name.get_attributes_for_oid(kind)]
    return values[0] if len(values) == 1 else ""


def _extension(certificate: x509.Certificate, kind: type[_Extension]) -> _Extension | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None
