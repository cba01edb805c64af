"""A word that a user typed -> the workload it names: a file, a fetched public trace, a shipped digest, a formula."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from loadtests.digest import SHIPPED, shipped
from loadtests.lengths import parse_lengths
from loadtests.rates import parse_formula
from loadtests.workloads.public_traces import default_cache, public_trace
from loadtests.workloads.rate_files import KINDS as RATE_KINDS
from loadtests.workloads.rate_files import rate_columns, read_rates
from loadtests.workloads.rate_series import RateSeries, of_digest, of_profile
from loadtests.workloads.recorded import RecordedRequests
from loadtests.workloads.request_files import KINDS as REQUEST_KINDS
from loadtests.workloads.request_files import read_requests, request_columns
from loadtests.workloads.rows import TraceFileError, header_of

AnyWorkload = RecordedRequests | RateSeries

_FORMULA_PROMPTS, _FORMULA_OUTPUTS = parse_lengths("1024~0.8"), parse_lengths("256~0.8")


def chosen_workload(word: str, *, cache: Path | None = None) -> AnyWorkload:
    """The workload of a file (``FILE.csv``, or ``FILE.csv#COLUMN`` for one client of a table), of a digest that
    comes with the project, of a public trace that was fetched into ``cache``, or of a formula. Raises ValueError.
    """
    file, _, column = word.partition("#")
    if Path(file).is_file():
        return of_file(Path(file), column=column or None)
    public = public_trace(word)
    if public is not None:
        cached = (cache or default_cache()) / public.cached_file
        if not cached.is_file():
            raise ValueError(f"{word} is not fetched yet: gpu-autoscaler fetch-traces {word}")
        read = of_file(cached)
        return dataclasses.replace(read, name=word, about=f"{read.about}, {public.licence}, cite {public.cite}")
    digests = sorted(each.stem for each in SHIPPED.glob("*.json"))
    if word in digests:
        return of_digest(shipped(word))
    if ":" in word and not word.startswith((".", "/", "~")):
        return of_profile(parse_formula(word), name=word, prompts=_FORMULA_PROMPTS, outputs=_FORMULA_OUTPUTS, cv=1.0)
    raise ValueError(f"no file {file!r}, and no digest of that name ({', '.join(digests)}); a formula has a colon")


def of_file(path: Path, *, column: str | None = None) -> AnyWorkload:
    """The workload of a CSV or JSON-lines file, recognised by its columns. Raises TraceFileError."""
    header = header_of(path)
    name = path.name.removesuffix(path.suffix)
    if column is not None:
        rates = rate_columns(header, chosen=column)
        if rates is None:
            raise TraceFileError(f"{path}: need the column {column!r} and t_s or minute; got {', '.join(header)}")
        return read_rates(path, rates, name=f"{name}#{column}", about=f"{path.name}, column {column}")
    requests = request_columns(header)
    if requests is not None:
        return read_requests(path, requests, name=name, about=f"{path.name} ({requests.kind})")
    rates = rate_columns(header)
    if rates is not None:
        return read_rates(path, rates, name=name, about=f"{path.name} ({rates.kind})")
    known = [f"{kind.at}, {kind.prompt}, {kind.output}" for kind in REQUEST_KINDS]
    known += [f"{kind.at}, {kind.rate}" for kind in RATE_KINDS]
    raise TraceFileError(
        f"{path}: no known kind of trace; needed are the columns {'; or '.join(known)}. Got {', '.join(header)}"
    )
