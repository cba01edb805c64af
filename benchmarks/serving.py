"""How fast external metrics are read: ``python -m benchmarks.serving``, KEDA's part after them.

A real server in a process of its own, on one core, tells of many services that change all the while; a client on
another core reads on a fixed schedule (a slow answer does not hold back the next read), another service each time, as
kube-apiserver does: over TLS connections that are kept, with the front proxy's certificate, for the HPA's service
account, whose rights are asked of a cluster that answers after 20 ms. Times are from the sending of a request to the
last byte of its answer in the client, so they hold the client's own work as well. The exit code is 1 above the allowed
p99; that takes a machine with nothing else to do (or ``--real-time``), so the server's processor time for a read is
shown beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from adapters.serving.external.server import ExternalMetricsServer
from adapters.serving.external.settings import ExternalMetricsSettings
from autoscaler.domain.caller import Access, CallerTrust, TokenRefused, User, Verdict
from autoscaler.domain.publication import Publication

ALLOWED_P99_MS = 2.0

_NAMESPACE = "inference"
_STALE_AFTER_S = 60.0
_REVIEW_S = 0.02
_HEADERS = (
    "Host: gpu-autoscaler.gpu-autoscaler.svc\r\n"
    "User-Agent: kube-controller-manager/v1.36.3 (linux/amd64) kubernetes/0000000/horizontal-pod-autoscaler\r\n"
    "Accept: application/vnd.kubernetes.protobuf,application/json\r\n"
    "Accept-Encoding: gzip\r\n"
    "X-Remote-User: system:serviceaccount:kube-system:horizontal-pod-autoscaler\r\n"
    "X-Remote-Group: system:serviceaccounts\r\n"
    "X-Remote-Group: system:serviceaccounts:kube-system\r\n"
    "X-Remote-Group: system:authenticated\r\n"
    "X-Remote-Uid: 7c6f1f3e-3f44-4d0b-8a53-3f7c2a3c9f10\r\n"
    "X-Remote-Extra-Authentication.kubernetes.io%2fcredential-Id: JTI=51a3c6a8-6f0d-4f4c-9f3c-0c0b5d6a7e11\r\n"
)


class Services:
    """Publications of so many services, all of them renewed again and again by another thread."""

    def __init__(self, number: int) -> None:
        self._names = [_name(index) for index in range(number)]
        self._latest: dict[str, Publication] = {}
        self.renew(replicas=1)

    def renew(self, *, replicas: int) -> None:
        """Publish anew for each."""
        for name in self._names:
            self._latest[name] = Publication(
                namespace=_NAMESPACE,
                name=name,
                at_s=time.time(),
                stale_after_s=_STALE_AFTER_S,
                desired_replicas=replicas,
                targets=(("full", replicas),),
                signals=(("arrival_rate_rps", 12.5), ("queued_requests", 3.0)),
                labels=(("model", "llama"), ("team", "search")),
            )

    def of(self, namespace: str, name: str) -> Publication | None:
        """As the port says."""
        return self._latest.get(name) if namespace == _NAMESPACE else None

    def within(self, namespace: str) -> Sequence[Publication]:
        """As the port says."""
        return [self._latest[name] for name in self._names] if namespace == _NAMESPACE else []

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """As the port says."""
        return lambda: None


class Cluster:
    """Lets everybody read, after a while."""

    def token_review(self, token: str, audiences: tuple[str, ...]) -> User | TokenRefused:
        """Nobody's."""
        return TokenRefused(reason="no tokens here")

    def subject_access_review(self, user: User, access: Access) -> Verdict:
        """Yes."""
        time.sleep(_REVIEW_S)
        return Verdict(allowed=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """Files of one authority and two certificates, for the server and for the front proxy."""

    folder: Path

    @property
    def authority(self) -> Path:
        """Its certificate."""
        return self.folder / "ca.crt"

    def pair(self, name: str) -> tuple[Path, Path]:
        """Certificate and key."""
        return self.folder / f"{name}.crt", self.folder / f"{name}.key"

    def make(self) -> None:
        """Write all of them."""
        signer = ec.generate_private_key(ec.SECP256R1())
        root = _certificate("ca", signer.public_key(), "ca", signer, authority=True)
        self.authority.write_bytes(root.public_bytes(Encoding.PEM))
        for name in ("server", "front-proxy-client"):
            key = ec.generate_private_key(ec.SECP256R1())
            certificate, key_file = self.pair(name)
            signed = _certificate(name, key.public_key(), "ca", signer, authority=False)
            certificate.write_bytes(signed.public_bytes(Encoding.PEM))
            key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Address:
    port: int
    context: ssl.SSLContext


class Reader:
    """One connection as kube-apiserver keeps it; one read at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self, request: bytes) -> None:
        """Send it, and take its answer whole."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
        body = await self._reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 200") or b'"value":"' not in body:
            raise SystemExit(f"answered {head!r} {body!r}")

    def close(self) -> None:
        """End it."""
        self._writer.close()


def main() -> int:
    """Measure and print. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=__doc__)
    parser.add_argument("--rate", type=float, default=1000.0, help="reads per second")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to measure")
    parser.add_argument("--services", type=int, default=500, help="how many are told of")
    parser.add_argument("--connections", type=int, default=8, help="how many are kept open")
    parser.add_argument("--alone", action="store_true", help="leave out KEDA's part")
    parser.add_argument("--real-time", action="store_true", help="as root: go before all else that runs here")
    options = parser.parse_args()

    if options.real_time:  # inherited by the processes that are started
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        certificates = Certificates(folder=Path(folder))
        certificates.make()
        here, there = multiprocessing.Pipe()
        server = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(there, certificates, options.services, cores[0]), daemon=True
        )
        server.start()
        os.sched_setaffinity(0, {cores[-1]})
        port: int = here.recv()
        requests = [_request(_name(index)) for index in range(options.services)]
        context = ssl.create_default_context(cafile=str(certificates.authority))
        context.check_hostname = False
        context.load_cert_chain(*certificates.pair("front-proxy-client"))
        address = _Address(port=port, context=context)
        rate, seconds, connections = options.rate, options.seconds, options.connections
        try:
            times_s, cpu_s = asyncio.run(
                _measure(here, address, requests, rate=rate, seconds=seconds, connections=connections)
            )
        finally:
            here.send("stop")
            server.join(timeout=10)
    os.sched_setaffinity(0, cores)
    status = _report(times_s, cpu_s, rate=options.rate)
    if not options.alone:
        status = max(status, subprocess.run((sys.executable, "-m", "benchmarks.serving_keda"), check=False).returncode)
    return status


def _name(index: int) -> str:
    return f"service-{index}"


def _request(service: str) -> bytes:
    path = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{_NAMESPACE}/desired_replicas"
    return f"GET {path}?labelSelector=service%3D{service} HTTP/1.1\r\n{_HEADERS}\r\n".encode()


def _serve(pipe: Connection, certificates: Certificates, services: int, core: int) -> None:
    os.sched_setaffinity(0, {core})
    publications = Services(services)
    certificate, key = certificates.pair("server")
    server = ExternalMetricsServer(
        ExternalMetricsSettings(host="127.0.0.1", port=0, certificate_file=certificate, key_file=key),
        publications,
        Cluster(),
        now_s=time.time,
    )
    server.set_trust(
        CallerTrust(front_proxy_ca_pem=certificates.authority.read_text(), front_proxy_names=("front-proxy-client",))
    )
    server.start()
    ended = threading.Event()

    def renew() -> None:
        replicas = 1
        while not ended.wait(1.0):
            replicas = replicas % 50 + 1
            publications.renew(replicas=replicas)

    writer = threading.Thread(target=renew)
    writer.start()
    pipe.send(server.port)
    while pipe.recv() != "stop":
        pipe.send(time.process_time())
    ended.set()
    writer.join()
    server.stop()


async def _measure(
    pipe: Connection, address: _Address, requests: Sequence[bytes], *, rate: float, seconds: float, connections: int
) -> tuple[list[float], float]:
    """Seconds of each read, and the server's seconds of processor time for all."""
    readers: asyncio.LifoQueue[Reader] = asyncio.LifoQueue()
    opened = [
        Reader(*await asyncio.open_connection("127.0.0.1", address.port, ssl=address.context))
        for _ in range(connections)
    ]
    for reader in opened:
        readers.put_nowait(reader)
    await _offer(readers, requests, rate=rate, seconds=2.0)  # warms caches
    gc.collect()
    gc.disable()  # the client's own pauses are not the server's
    before_s = _cpu_s(pipe)
    times_s = await _offer(readers, requests, rate=rate, seconds=seconds)
    cpu_s = _cpu_s(pipe) - before_s
    for reader in opened:
        reader.close()
    return times_s, cpu_s


async def _offer(
    readers: asyncio.LifoQueue[Reader], requests: Sequence[bytes], *, rate: float, seconds: float
) -> list[float]:
    times_s: list[float] = []

    async def read(request: bytes) -> None:
        begun_s = time.perf_counter()
        reader = await readers.get()
        await reader.read(request)
        readers.put_nowait(reader)
        times_s.append(time.perf_counter() - begun_s)

    begun_s = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for index in range(int(rate * seconds)):
            wait_s = begun_s + index / rate - time.perf_counter()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            group.create_task(read(requests[index % len(requests)]))
    return times_s


def _cpu_s(pipe: Connection) -> float:
    pipe.send("cpu")
    told: float = pipe.recv()
    return told


def _certificate(
    name: str, key: ec.EllipticCurvePublicKey, issuer: str, signer: ec.EllipticCurvePrivateKey, *, authority: bool
) -> x509.Certificate:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .sign(signer, hashes.SHA256())
    )


def _report(times_s: Sequence[float], cpu_s: float, *, rate: float) -> int:
    ordered = sorted(times_s)
    p50, p99, p999 = [1e3 * ordered[min(len(ordered) - 1, int(q * len(ordered)))] for q in (0.5, 0.99, 0.999)]
    cpu_us = 1e6 * cpu_s / len(ordered)
    print(f"external metrics         {len(ordered)} reads at {rate:g}/s over TLS")
    print(f"p50, p99, p99.9          {p50:.2f}, {p99:.2f}, {p999:.2f} ms")
    print(f"server's CPU             {cpu_us:.0f} us a read, {cpu_us * rate / 1e4:.0f} % of a core")
    if p99 > ALLOWED_P99_MS:
        print(f"p99 above the allowed {ALLOWED_P99_MS:g} ms")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
