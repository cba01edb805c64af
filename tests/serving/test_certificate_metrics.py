"""When the certificates run out, as the metrics page tells."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509

from adapters.serving.certificate_metrics import CertificateCollector
from tests.charts.pages import certificate_file


def told(files: dict[str, Path]) -> dict[str, float]:
    """What a scrape gets, by server."""
    (family,) = CertificateCollector(files).collect()
    return {sample.labels["server"]: sample.value for sample in family.samples}


def ends_s(file: Path) -> float:
    return x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc.timestamp()


def test_each_server_tells_its_own_and_a_changed_file_counts_at_once(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    first = certificate_file(folders[0], lasts_s=2 * 86400.0)
    second = certificate_file(folders[1], lasts_s=9 * 86400.0)
    files = {"external-metrics": first, "external-scaler": second}
    assert told(files) == {"external-metrics": ends_s(first), "external-scaler": ends_s(second)}
    before_s = ends_s(first)
    certificate_file(folders[0], lasts_s=90 * 86400.0)
    assert told(files)["external-metrics"] > before_s + 80 * 86400.0


@pytest.mark.parametrize(
    "content", [pytest.param(None, id="no file"), pytest.param(b"", id="empty"), pytest.param(b"x", id="no PEM")]
)
def test_of_one_that_can_not_be_read_nothing_is_told(tmp_path: Path, content: bytes | None) -> None:
    good = certificate_file(tmp_path, lasts_s=86400.0)
    bad = tmp_path / "bad.crt"
    if content is not None:
        bad.write_bytes(content)
    assert told({"external-metrics": bad, "external-scaler": good}) == {"external-scaler": ends_s(good)}


def test_the_first_of_a_chain_is_the_servers_own(tmp_path: Path) -> None:
    (tmp_path / "ca").mkdir()
    own = certificate_file(tmp_path, lasts_s=86400.0)
    chain = tmp_path / "chain.crt"
    chain.write_bytes(own.read_bytes() + certificate_file(tmp_path / "ca", lasts_s=900.0).read_bytes())
    assert told({"external-metrics": chain}) == {"external-metrics": ends_s(own)}
