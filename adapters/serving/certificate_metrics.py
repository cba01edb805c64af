"""When the certificates that this process serves with run out, read from their files at the moment of the scrape.

The servers take up a changed file by themselves, so what the file says is what they show.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

from cryptography import x509
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_log = logging.getLogger(__name__)


class CertificateCollector(Collector):
    """One sample for each server whose certificate can be read; of one that can't be there is none."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        """``files``: the PEM file by the server's name; the server's own certificate comes first in it."""
        self._files = files

    def collect(self) -> Iterator[Metric]:
        """As the files are now."""
        family = GaugeMetricFamily(
            "gpu_autoscaler_certificate_expiry_timestamp_seconds",
            "When the certificate that a server shows runs out.",
            labels=["server"],
        )
        for server, file in self._files.items():
            try:
                leaf = x509.load_pem_x509_certificates(file.read_bytes())[0]
            except (OSError, ValueError) as error:
                _log.warning("when the certificate %s runs out can't be told: %s", file, error)
                continue
            family.add_metric([server], leaf.not_valid_after_utc.timestamp())
        yield family
