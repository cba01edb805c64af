"""A board with decisions of all sorts, so that its metrics page has every series."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from adapters.serving.store import DecisionBoard
from autoscaler.domain.plan import Reason, ServiceDecision
from autoscaler.domain.reading import Unknown, UnknownReason
from tests.adapters_kubernetes.decisions import DEMAND, decided, holding, resource

SERVICE = "llm/chat"
LOST = Unknown(UnknownReason.UNREACHABLE, "chat-1: connection refused")


def new_board() -> DecisionBoard:
    """One service, nothing decided yet."""
    return DecisionBoard(services=(resource().service,), stale_after_s=60.0)


def well(at_s: float) -> ServiceDecision:
    """Three replicas are wanted and ready, within the SLO."""
    return decided(3, at_s=at_s, demand=replace(DEMAND, at_s=at_s), starting=0, binding=Reason.STEADY)


def lost(at_s: float) -> ServiceDecision:
    """No page can be read: held."""
    return holding(Reason.UNKNOWN_DEMAND, "no page can be read", at_s=at_s, demand=LOST)


def overloaded(at_s: float, *, desired: int = 5) -> ServiceDecision:
    """More is wanted than there is room for, a replica has failed, and requests are late."""
    demand = replace(DEMAND, at_s=at_s, attained=0.7)
    return decided(desired, at_s=at_s, demand=demand, binding=Reason.DEVICES_EXHAUSTED, ready=2, starting=0, failed=1)


def board_with_a_past(now_s: float) -> DecisionBoard:
    """All of these, the latest at ``now_s``."""
    board = new_board()
    for before_s, decision in ((30.0, overloaded), (20.0, lost), (0.0, well)):
        board.publish(decision(now_s - before_s))
        board.ticked(at_s=now_s - before_s, duration_s=0.01)
    return board


def certificate_file(folder: Path, *, lasts_s: float) -> Path:
    """One that a server might show, written to the folder's ``tls.crt``."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gpu-autoscaler")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(seconds=lasts_s))
        .sign(key, hashes.SHA256())
    )
    file = folder / "tls.crt"
    file.write_bytes(made.public_bytes(Encoding.PEM))
    return file
