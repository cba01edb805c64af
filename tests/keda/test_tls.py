"""TLS: who is believed, and certificates that change while calls go on."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from cryptography.hazmat.primitives import serialization

from adapters.serving.keda.credentials import TlsFiles
from adapters.serving.keda.server import ScalerServer, ScalerSettings
from autoscaler.ports import RefusedError
from tests.cluster.certificates import Authority, KeyPair
from tests.keda.client import Caller, refusal
from tests.keda.conftest import Clock
from tests.keda.notes import Notes


@dataclass(frozen=True)
class Secured:
    """A server with TLS and the files that it reads."""

    server: ScalerServer
    files: TlsFiles

    def replace(self, pair: KeyPair) -> None:
        """What a renewal does."""
        shutil.copyfile(pair.certificate, self.files.certificate)
        shutil.copyfile(pair.key, self.files.key)

    def call(self, trusted: Authority, client: KeyPair | None = None) -> bool:
        """Over a connection of its own."""
        credentials = grpc.ssl_channel_credentials(
            trusted.certificate.read_bytes(),
            client.key.read_bytes() if client else None,
            client.certificate.read_bytes() if client else None,
        )
        with grpc.secure_channel(f"localhost:{self.server.port}", credentials) as channel:
            return Caller(channel).is_active()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


@pytest.fixture
def stranger(tmp_path: Path) -> Authority:
    """Nobody trusts it."""
    return Authority(tmp_path, "strange")


def secured(folder: Path, notes: Notes, clock: Clock, authority: Authority, *, client_ca: bool) -> Secured:
    """Not started yet."""
    mounted = folder / "mounted"
    mounted.mkdir()
    files = TlsFiles(
        certificate=mounted / "tls.crt", key=mounted / "tls.key", client_ca=mounted / "ca.crt" if client_ca else None
    )
    if files.client_ca:
        shutil.copyfile(authority.certificate, files.client_ca)
    made = Secured(ScalerServer(notes, ScalerSettings(port=0, tls=files), now_s=clock.now_s), files)
    made.replace(server_of(authority))
    return made


def server_of(authority: Authority) -> KeyPair:
    return authority.issue(f"server-{authority.certificate.stem}", hosts=("localhost",))


@pytest.fixture
def one_way(tmp_path: Path, notes: Notes, clock: Clock, authority: Authority) -> Iterator[Secured]:
    """Clients need no certificate."""
    notes.publish(1)
    made = secured(tmp_path, notes, clock, authority, client_ca=False)
    made.server.start()
    yield made
    made.server.stop()


@pytest.fixture
def mutual(tmp_path: Path, notes: Notes, clock: Clock, authority: Authority) -> Iterator[Secured]:
    """Clients need one."""
    notes.publish(1)
    made = secured(tmp_path, notes, clock, authority, client_ca=True)
    made.server.start()
    yield made
    made.server.stop()


def test_a_client_that_trusts_the_authority_is_answered(one_way: Secured, authority: Authority) -> None:
    assert one_way.call(authority)


def test_plain_text_and_strangers_get_no_answer(one_way: Secured, stranger: Authority) -> None:
    assert refusal(lambda: one_way.call(stranger))[0] is grpc.StatusCode.UNAVAILABLE
    with grpc.insecure_channel(f"localhost:{one_way.server.port}") as channel:
        assert refusal(Caller(channel).is_active)[0] is grpc.StatusCode.UNAVAILABLE


def test_client_certificates_where_they_are_asked_for(
    mutual: Secured, authority: Authority, stranger: Authority
) -> None:
    assert mutual.call(authority, authority.issue("keda"))
    assert refusal(lambda: mutual.call(authority))[0] is grpc.StatusCode.UNAVAILABLE
    expired = authority.issue("keda-of-old", expired=True)
    assert refusal(lambda: mutual.call(authority, expired))[0] is grpc.StatusCode.UNAVAILABLE
    assert refusal(lambda: mutual.call(authority, stranger.issue("keda-2")))[0] is grpc.StatusCode.UNAVAILABLE


def test_a_renewed_certificate_is_taken_up_without_a_restart(
    one_way: Secured, authority: Authority, stranger: Authority
) -> None:
    with grpc.secure_channel(
        f"localhost:{one_way.server.port}", grpc.ssl_channel_credentials(authority.certificate.read_bytes())
    ) as channel:
        open_before = Caller(channel)
        assert open_before.is_active()
        one_way.replace(server_of(stranger))
        assert one_way.call(stranger)
        assert open_before.is_active()
    assert refusal(lambda: one_way.call(authority))[0] is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("half", ["certificate without key", "nonsense", "nothing"])
def test_a_renewal_that_is_of_no_use_leaves_the_last_in_use(
    one_way: Secured, authority: Authority, stranger: Authority, caplog: pytest.LogCaptureFixture, half: str
) -> None:
    new = server_of(stranger)
    with caplog.at_level(logging.WARNING):
        if half == "nothing":
            one_way.files.certificate.unlink()
        else:
            one_way.files.certificate.write_bytes(
                new.certificate.read_bytes() if half == "certificate without key" else b"?"
            )
        assert one_way.call(authority)
    assert "stays in use" in caplog.text
    one_way.replace(new)
    assert one_way.call(stranger)


def test_an_authority_for_clients_can_be_exchanged(mutual: Secured, authority: Authority, stranger: Authority) -> None:
    assert mutual.files.client_ca is not None
    mutual.files.client_ca.write_bytes(stranger.certificate.read_bytes())
    assert mutual.call(authority, stranger.issue("keda"))
    assert refusal(lambda: mutual.call(authority, authority.issue("keda")))[0] is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("content", [pytest.param(None, id="missing"), b"", b"?", b"-----BEGIN CERTIFICATE-----\n"])
@pytest.mark.parametrize("file", ["tls.crt", "tls.key", "ca.crt"])
def test_files_that_can_not_be_used_are_refused_at_the_start(
    tmp_path: Path, notes: Notes, clock: Clock, authority: Authority, *, file: str, content: bytes | None
) -> None:
    made = secured(tmp_path, notes, clock, authority, client_ca=True)
    spoilt = tmp_path / "mounted" / file
    if content is None:
        spoilt.unlink()
    else:
        spoilt.write_bytes(content)
    with pytest.raises(RefusedError, match=r"tls\.crt"):
        made.server.start()
    assert notes.subscribers == 0


def test_a_key_behind_a_password_is_refused(tmp_path: Path, notes: Notes, clock: Clock, authority: Authority) -> None:
    made = secured(tmp_path, notes, clock, authority, client_ca=False)
    key = serialization.load_pem_private_key(made.files.key.read_bytes(), password=None)
    made.files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"a secret"),
        )
    )
    with pytest.raises(RefusedError, match=r"tls\.key"):
        made.server.start()
