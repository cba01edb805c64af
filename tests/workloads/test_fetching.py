"""Public traces come into the cache whole and checked: from a server, from a mirror that breaks off, from a folder."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from loadtests.workloads.choosing import chosen_workload, of_file
from loadtests.workloads.fetch_command import fetch_traces
from loadtests.workloads.fetching import FetchError, fetch
from loadtests.workloads.public_traces import PUBLIC_TRACES, PublicTrace, public_trace
from loadtests.workloads.rate_series import RateSeries

ROWS = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:{minute:02d}:{second:02d}.5,374,44\n" for minute in range(60) for second in range(60)
)
TRACE = PublicTrace(
    name="own",
    url="http://127.0.0.1:9/nowhere.csv",
    file="trace.csv",
    licence="CC0-1.0",
    cite="nobody",
    sha256=hashlib.sha256(ROWS.encode()).hexdigest(),
)


class Publisher(ThreadingHTTPServer):
    """Serves ``ROWS`` at /trace.csv, with ranges; sends only ``limit`` bytes of an answer, then closes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.body = ROWS.encode()
        self.limit: int | None = None
        self.ranges: list[str | None] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Publisher

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.ranges.append(asked)
        if self.path != "/trace.csv":
            self.send_error(404)
            return
        begin = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        body = self.server.body[begin:]
        if asked and not body:
            self.send_error(416)
            return
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.server.limit])

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    with Publisher() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def quiet(have: int, total: int | None) -> None:
    """No progress wanted."""


def test_a_trace_is_fetched_once(publisher: Publisher, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    file = fetch(TRACE, cache=tmp_path / "cache", origin=publisher.address, progress=lambda *each: seen.append(each))
    assert file.read_text() == ROWS
    assert seen[-1] == (len(ROWS), len(ROWS))
    assert fetch(TRACE, cache=tmp_path / "cache", origin=publisher.address, progress=quiet) == file
    assert publisher.ranges == [None]
    assert [each.name for each in (tmp_path / "cache").iterdir()] == ["trace.csv"]


def test_a_download_that_broke_off_is_continued(publisher: Publisher, tmp_path: Path) -> None:
    publisher.limit = 50_000
    with pytest.raises(FetchError, match=r"broke off after 50000 of \d+ bytes"):
        fetch(TRACE, cache=tmp_path, origin=publisher.address, progress=quiet)
    assert not (tmp_path / "trace.csv").exists()
    publisher.limit = None
    assert fetch(TRACE, cache=tmp_path, origin=publisher.address, progress=quiet).read_text() == ROWS
    assert publisher.ranges[-1] == "bytes=50000-"


def test_a_partial_file_that_is_whole_already_is_taken(publisher: Publisher, tmp_path: Path) -> None:
    (tmp_path / "trace.csv.part").write_text(ROWS)
    assert fetch(TRACE, cache=tmp_path, origin=publisher.address, progress=quiet).read_text() == ROWS


def test_a_changed_file_is_refused_and_not_kept(publisher: Publisher, tmp_path: Path) -> None:
    publisher.body = ROWS.replace("374", "375").encode()
    with pytest.raises(FetchError, match="is not the published file: SHA-256"):
        fetch(TRACE, cache=tmp_path, origin=publisher.address, progress=quiet)
    assert list(tmp_path.iterdir()) == []


def test_what_the_server_refuses_is_told(publisher: Publisher, tmp_path: Path) -> None:
    missing = dataclasses.replace(TRACE, file="other.csv")
    with pytest.raises(FetchError, match=r"own: .*/other.csv answers with status 404"):
        fetch(missing, cache=tmp_path, origin=publisher.address, progress=quiet)


def test_a_folder_serves_without_a_network(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(FetchError, match=r"has no file trace\.csv"):
        fetch(TRACE, cache=tmp_path / "cache", origin=folder, progress=quiet)
    (folder / "trace.csv").write_text("changed")
    with pytest.raises(FetchError, match="not the published file"):
        fetch(TRACE, cache=tmp_path / "cache", origin=folder, progress=quiet)
    assert (folder / "trace.csv").exists()
    (folder / "trace.csv").write_text(ROWS)
    assert fetch(TRACE, cache=tmp_path / "cache", origin=folder, progress=quiet).read_text() == ROWS


@pytest.mark.parametrize(
    ("change", "message"),
    [({}, "which are no requests"), ({"requests": 5}, "no requests|5 requests are published")],
    ids=["other columns", "another number of requests"],
)
def test_without_a_checksum_the_content_is_checked(change: dict[str, int], message: str, tmp_path: Path) -> None:
    trace = dataclasses.replace(TRACE, sha256=None, **change)  # type: ignore[arg-type]
    (tmp_path / "trace.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FetchError, match=message):
        fetch(trace, cache=tmp_path / "cache", origin=tmp_path, progress=quiet)


def archive(path: Path, files: dict[str, str]) -> None:
    with tarfile.open(path, "w:gz") as opened:
        for name, text in files.items():
            member = tarfile.TarInfo(f"ServeGen-main/{name}")
            member.size = len(text.encode())
            opened.addfile(member, io.BytesIO(text.encode()))


def test_the_clients_of_servegen_become_a_table_of_rates(tmp_path: Path) -> None:
    trace = public_trace("servegen-m-large")
    assert trace is not None
    folder = "data/language/m-large"
    archive(
        tmp_path / trace.file,
        {
            f"{folder}/chunk-0-trace.csv": "0,3.0,2.0,Weibull,0.3,0.3\n600,0,0,,0,0\n",
            f"{folder}/chunk-0-dataset.json": '{"0": {"input_tokens": "{100: 0.5, 300: 0.5}", '
            '"output_tokens": "{10: 1.0}"}}',
            f"{folder}/chunk-1-trace.csv": "0,1.0,1.0,Gamma,1,1\n600,4.0,1.5,Gamma,1,1\n",
            f"{folder}/chunk-1-dataset.json": "version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
            "data/reason/deepseek-r1/chunk-0-trace.csv": "0,99,1,Gamma,1,1\n",
        },
    )
    read = of_file(fetch(trace, cache=tmp_path / "cache", origin=tmp_path, progress=quiet))
    assert isinstance(read, RateSeries)
    assert read.rps.tolist() == [4.0, 4.0]
    assert read.cv == pytest.approx(1.5)
    assert read.counts(0).prompt_tokens == pytest.approx(200, rel=1e-3)


def test_another_archive_is_refused(tmp_path: Path) -> None:
    trace = public_trace("servegen-m-large")
    assert trace is not None
    archive(tmp_path / trace.file, {"README.md": "nothing"})
    with pytest.raises(FetchError, match=r"holds no data/language/m-large/chunk-N-trace\.csv"):
        fetch(trace, cache=tmp_path / "cache", origin=tmp_path, progress=quiet)
    (tmp_path / trace.file).write_text("no archive")
    with pytest.raises(FetchError, match="no archive"):
        fetch(trace, cache=tmp_path / "cache", origin=tmp_path, progress=quiet)


def test_names_and_cached_files_are_unique() -> None:
    assert len({trace.name for trace in PUBLIC_TRACES}) == len(PUBLIC_TRACES)
    assert len({trace.cached_file for trace in PUBLIC_TRACES}) == len(PUBLIC_TRACES)


def test_the_command_fetches_from_a_folder_and_says_what_lacks(tmp_path: Path) -> None:
    (tmp_path / "BurstGPT_1.csv").write_text("Timestamp,Model,Request tokens,Response tokens\n0,x,1,1\n")
    app = typer.Typer()
    app.command()(fetch_traces)
    answer = CliRunner().invoke(
        app, ["burstgpt-1", "burstgpt-2", "--from", str(tmp_path), "--to", str(tmp_path / "cache")]
    )
    assert answer.exit_code == 1
    assert "burstgpt-1\t" in answer.stdout
    assert "has no file BurstGPT_2.csv" in answer.stderr
    assert chosen_workload("burstgpt-1", cache=tmp_path / "cache").duration_s == 1
    with pytest.raises(ValueError, match="gpu-autoscaler fetch-traces burstgpt-2"):
        chosen_workload("burstgpt-2", cache=tmp_path / "cache")
    assert "there are azure-2023-conv" in CliRunner().invoke(app, ["weekly"]).stderr
    assert "CC-BY-4.0" in CliRunner().invoke(app, ["--list"]).stdout
