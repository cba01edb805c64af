"""ServeGen's archive of clients -> one table of rates.

Each client has ``chunk-N-trace.csv`` (begin of a window, requests/s, coefficient of variation, kind of gaps, two
parameters; no header) and ``chunk-N-dataset.json`` (window -> field -> probability of each length, as text), as read
by servegen/clientpool.py of github.com/alibaba/ServeGen. The second kind is large and may only be a pointer in the
archive; then the table has no lengths.
"""

from __future__ import annotations

import ast
import csv
import json
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from loadtests.workloads.rows import TraceFileError


@dataclass(slots=True)
class _Window:
    """Sums over the clients that send in a window; the token sums count rate times mean length."""

    rps: float = 0.0
    clients: int = 0
    cv: float = 0.0
    tokens: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    rps_with_tokens: float = 0.0


_FIELDS = {"input_tokens": "mean_in_tok", "output_tokens": "mean_out_tok"}


def write_rate_table(archive: Path, inside: str, target: Path) -> None:
    """Write the table of all clients below ``inside``. Raises TraceFileError where the archive is another's."""
    windows: dict[int, _Window] = defaultdict(_Window)
    try:
        with tarfile.open(archive, "r:*") as opened:
            members = {_below(member.name): member for member in opened.getmembers() if member.isfile()}
            traces = sorted(name for name in members if name.startswith(f"{inside}/") and name.endswith("-trace.csv"))
            for name in traces:
                lengths = members.get(name.replace("-trace.csv", "-dataset.json"))
                means = {} if lengths is None else _means(_text(opened, lengths))
                _add(windows, name, _text(opened, members[name]), means)
    except (tarfile.TarError, EOFError) as error:
        raise TraceFileError(f"{archive}: no archive ({error})") from error
    if not windows:
        raise TraceFileError(f"{archive}: holds no {inside}/chunk-N-trace.csv")
    with target.open("w", newline="") as file:
        csv.writer(file).writerows(_rows(windows))


def _below(name: str) -> str:
    """The path without the archive's own top folder."""
    return name.partition("/")[2]


def _text(opened: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = opened.extractfile(member)
    return "" if file is None else file.read().decode("utf-8")


def _add(windows: dict[int, _Window], name: str, text: str, means: dict[int, dict[str, float]]) -> None:
    known = sorted(means)
    for line, row in enumerate(csv.reader(text.splitlines()), start=1):
        try:
            at_s, rps, cv, active = int(row[0]), float(row[1]), float(row[2] or 0), bool(row[3])
        except (ValueError, IndexError):
            raise TraceFileError(
                f"{name}, line {line}: not begin, rate, cv and kind of gaps: {','.join(row)!r}"
            ) from None
        window = windows[at_s]
        if not active or rps <= 0:
            continue
        window.rps += rps
        window.clients += 1
        window.cv += cv
        begin = next((each for each in reversed(known) if each <= at_s), None)
        if begin is not None:
            window.rps_with_tokens += rps
            for each, mean in means[begin].items():
                window.tokens[each] += rps * mean


def _means(text: str) -> dict[int, dict[str, float]]:
    """Mean lengths of each window; empty where the archive holds a pointer instead of the file."""
    if text.startswith("version https://git-lfs"):
        return {}
    means: dict[int, dict[str, float]] = {}
    for begin, fields in json.loads(text).items():
        shares = {name: ast.literal_eval(fields[name]) for name in _FIELDS if name in fields}
        if len(shares) == len(_FIELDS) and all(shares.values()):
            means[int(begin)] = {
                name: sum(tokens * share for tokens, share in each.items()) for name, each in shares.items()
            }
    return means


def _rows(windows: dict[int, _Window]) -> Iterator[list[str]]:
    lengths = any(window.rps_with_tokens for window in windows.values())
    yield ["t_s", "rate_rps", "active_clients", "mean_client_cv", *(_FIELDS.values() if lengths else ())]
    for at_s, window in sorted(windows.items()):
        share = window.rps_with_tokens or 1.0
        tokens = [f"{window.tokens[name] / share:.1f}" for name in _FIELDS] if lengths else []
        cv = window.cv / window.clients if window.clients else 0.0
        yield [str(at_s), f"{window.rps:.4f}", str(window.clients), f"{cv:.3f}", *tokens]
