"""Certificate authorities of a test, and the certificates that they sign, right and wrong."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOW = datetime.now(UTC).replace(microsecond=0)  # the TLS library looks at the real clock
DAY = timedelta(days=1)
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Certificate file and key file."""
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        certificate.write_text(self.pem)
        key.write_bytes(self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return certificate, key


def authority(name: str, *, from_day: float = -365, until_day: float = 3650, signs: bool = True) -> Pair:
    """A CA that signed itself; ``signs`` False leaves out what makes it one."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(subject, key, from_day, until_day).issuer_name(subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=signs, path_length=None), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return Pair(builder.sign(key, hashes.SHA256()), key)


def issue(
    by: Pair | None,
    name: str,
    *,
    groups: tuple[str, ...] = (),
    use: x509.ObjectIdentifier | None = CLIENT,
    from_day: float = -1,
    until_day: float = 365,
    ca: bool = False,
    hosts: tuple[str, ...] = (),
) -> Pair:
    """A certificate of common name ``name``; ``by`` None: it signs itself. Days count from NOW."""
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    if name:
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
    subject = x509.Name(attributes)
    builder = _builder(subject, key, from_day, until_day)
    builder = builder.issuer_name(by.certificate.subject if by else subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    if use is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
    if hosts:
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    if by:
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(by.key.public_key())
        builder = builder.add_extension(identifier, critical=False)
    return Pair(builder.sign(by.key if by else key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, from_day: float, until_day: float
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW + from_day * DAY)
        .not_valid_after(NOW + until_day * DAY)
    )
