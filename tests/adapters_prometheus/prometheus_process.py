"""A real Prometheus as a process."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.cluster.build import program
from tests.cluster.processes import ManagedProcess, Processes, free_port


@dataclass
class RealPrometheus:
    """Over a folder of its own. What it scrapes may change while it runs."""

    processes: Processes
    folder: Path
    interval: str = "500ms"
    port: int = field(default_factory=free_port)
    process: ManagedProcess | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def know(self, targets: Mapping[str, Mapping[str, str]]) -> None:
        """Scrape these addresses, each with its labels, and no others."""
        listed = [{"targets": [address], "labels": dict(labels)} for address, labels in targets.items()]
        written = self.folder / "targets.json.new"
        written.write_text(json.dumps(listed))
        written.rename(self.folder / "targets.json")

    def start(self) -> None:
        job = {
            "job_name": "engines",
            "file_sd_configs": [{"files": [str(self.folder / "targets.json")], "refresh_interval": "1s"}],
        }
        timing = {"scrape_interval": self.interval, "scrape_timeout": self.interval}
        written = self.folder / "prometheus.yaml"
        written.write_text(yaml.safe_dump({"global": timing, "scrape_configs": [job]}))
        self.process = self.processes.start(
            "prometheus",
            (
                str(program("prometheus")),
                f"--config.file={written}",
                f"--storage.tsdb.path={self.folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ),
        )
        self.processes.await_ready(self.process, self._ready)

    def kill(self) -> None:
        assert self.process is not None
        self.processes.kill(self.process)

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.signal(number)

    def _ready(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
        return False
