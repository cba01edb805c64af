"""Certificates of a test cluster, and those that its servers must refuse."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A certificate and its private key, both PEM files."""

    certificate: Path
    key: Path


class Authority:
    """One certificate authority; it writes what it issues into ``folder``, one pair of files a name."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject(name, ())
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _HOUR)
            .not_valid_after(now + _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_key_usage(for_authority=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
        )
        self._certificate = builder.sign(self._key, hashes.SHA256())
        self.certificate = folder / f"{name}.crt"
        self.certificate.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        *,
        common_name: str | None = None,
        organizations: Sequence[str] = (),
        hosts: Sequence[str] = (),
        expired: bool = False,
        not_yet_valid: bool = False,
    ) -> KeyPair:
        """Sign a certificate for server and client use, valid for a day around now unless told otherwise.

        ``name``: of the files, and of the subject where ``common_name`` isn't given. ``organizations``: the groups of
        a client. ``hosts``: DNS names and IP addresses of a server.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        start = datetime.now(UTC) + (-2 * _DAY if expired else _HOUR if not_yet_valid else -_HOUR)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            x509.CertificateBuilder()
            .subject_name(_subject(common_name if common_name is not None else name, organizations))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(start + _DAY)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(for_authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(issuer, critical=False)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_host(each) for each in hosts])
            builder = builder.add_extension(names, critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        pair = KeyPair(certificate=self._folder / f"{name}.crt", key=self._folder / f"{name}.key")
        pair.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        pair.key.write_bytes(_pem(key))
        return pair


class Certificates:
    """All certificates of one cluster, in ``folder``.

    ``ca``: servers and clients, also of what tests put beside the cluster. ``front_proxy_ca``: of the API server as a
    client of aggregated servers. ``foreign_ca``: nobody in the cluster trusts it.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.ca = Authority(folder, "ca")
        self.front_proxy_ca = Authority(folder, "front-proxy-ca")
        self.foreign_ca = Authority(folder, "foreign-ca")
        service = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
        self.api_server = self.ca.issue("kube-apiserver", hosts=("localhost", "127.0.0.1", "10.0.0.1", *service))
        self.front_proxy = self.front_proxy_ca.issue("front-proxy-client")
        self.admin = self.ca.issue("admin", organizations=("system:masters",))
        self.controller_manager = self.ca.issue("controller-manager", common_name="system:kube-controller-manager")
        self.scheduler = self.ca.issue("scheduler", common_name="system:kube-scheduler")
        self.plain_user = self.ca.issue("plain-user", organizations=("nobody",))
        # Between KEDA's parts, both ways; the adapter calls the operator as localhost.
        self.keda = self.ca.issue("keda", hosts=("keda-metrics-apiserver.keda.svc", "localhost", "127.0.0.1"))
        self.service_account_key = folder / "service-accounts.key"
        self.service_account_public_key = folder / "service-accounts.pub"
        signing = ec.generate_private_key(ec.SECP256R1())
        self.service_account_key.write_bytes(_pem(signing))
        self.service_account_public_key.write_bytes(
            signing.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _subject(common_name: str, organizations: Sequence[str]) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    if common_name:
        parts.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    return x509.Name(parts)


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage(*, for_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=for_authority,
        crl_sign=for_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
