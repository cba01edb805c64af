"""Files with a row for each interval: a rate, and where it is known mean lengths and irregularity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from loadtests.digest import shipped
from loadtests.lengths import LengthQuantiles
from loadtests.workloads.rate_series import RateSeries
from loadtests.workloads.rows import Floats, TraceFileError, at_least, chunks
from loadtests.workloads.within_bins import noise_of_band

# Where a table says nothing of single requests: shape of the lengths and irregularity as in Azure's conversations.
LIKE = "azure2023_conv"


@dataclass(frozen=True, slots=True, kw_only=True)
class RateColumns:
    """The columns of one kind of table. ``at`` is the begin of a row's interval in units of ``at_unit_s``, and a row
    holds until the next. ``rate`` is in requests per ``rate_unit_s``; ``band``: the span of single minutes' rates.
    ``prompt`` and ``output``: mean tokens of a request or, where ``tokens_in_all``, tokens per ``rate_unit_s``.
    """

    kind: str
    at: str
    at_unit_s: float
    rate: str
    rate_unit_s: float
    band: tuple[str, str] | None = None
    prompt: str | None = None
    output: str | None = None
    tokens_in_all: bool = False
    cv: str | None = None


KINDS = (
    RateColumns(
        kind="ServeGen windows",
        at="t_s",
        at_unit_s=1.0,
        rate="rate_rps",
        rate_unit_s=1.0,
        prompt="mean_in_tok",
        output="mean_out_tok",
        cv="mean_client_cv",
    ),
    RateColumns(
        kind="a plot that was read off",
        at="minute",
        at_unit_s=60.0,
        rate="req_per_min_mid",
        rate_unit_s=60.0,
        band=("req_per_min_lo", "req_per_min_hi"),
        prompt="in_tok_per_min",
        output="out_tok_per_min",
        tokens_in_all=True,
    ),
    RateColumns(
        kind="rates by second",
        at="t_s",
        at_unit_s=1.0,
        rate="rate",
        rate_unit_s=1.0,
        prompt="prompt_tokens",
        output="output_tokens",
        cv="cv",
    ),
    RateColumns(
        kind="rates by minute",
        at="minute",
        at_unit_s=60.0,
        rate="rate",
        rate_unit_s=1.0,
        prompt="prompt_tokens",
        output="output_tokens",
        cv="cv",
    ),
)
_TIMES = {kind.at: kind.at_unit_s for kind in KINDS}


def rate_columns(header: Sequence[str], *, chosen: str | None = None) -> RateColumns | None:
    """The kind whose columns the header has; None: no kind.

    ``chosen``: the column to take as requests per second, in a table with one for each client.
    """
    if chosen is not None:
        time = next((name for name in header if name in _TIMES), None)
        if time is None or chosen not in header:
            return None
        return RateColumns(kind="one column", at=time, at_unit_s=_TIMES[time], rate=chosen, rate_unit_s=1.0)
    return next((kind for kind in KINDS if kind.at in header and kind.rate in header), None)


def read_rates(path: Path, columns: RateColumns, *, name: str, about: str) -> RateSeries:
    """The table as a workload that begins with its first row. Raises TraceFileError."""
    read = _Table(path)
    at_s = read.column(columns.at) * columns.at_unit_s
    if len(at_s) < 2:
        raise TraceFileError(f"{path}: a table of rates needs at least two rows, got {len(at_s)}")
    if (np.diff(at_s) <= 0).any():
        row = int(np.argmax(np.diff(at_s) <= 0)) + 1
        raise TraceFileError(
            f"{path}, line {read.lines[row]}: {columns.at} must ascend, got {at_s[row] / columns.at_unit_s:g} after "
            f"{at_s[row - 1] / columns.at_unit_s:g}"
        )
    edges_s = np.rint(np.append(at_s, 2 * at_s[-1] - at_s[-2]) - at_s[0])
    rate = read.column(columns.rate)
    like = shipped(LIKE)
    prompts, prompt_means = _lengths(read, columns, columns.prompt, rate, like.prompt_tokens)
    outputs, output_means = _lengths(read, columns, columns.output, rate, like.output_tokens)
    return RateSeries(
        name=name,
        about=about,
        edges_s=edges_s,
        rps=rate / columns.rate_unit_s,
        prompt_means=prompt_means,
        output_means=output_means,
        minute_noise=_noise(read, columns, rate),
        cv=_cv(read, columns, default=float(np.sqrt(like.dispersion))),
        prompts=prompts,
        outputs=outputs,
    )


class _Table:
    """The columns of a file that have been asked for."""

    def __init__(self, path: Path) -> None:
        self._chunks = list(chunks(path))
        self.header: Sequence[str] = self._chunks[0].header if self._chunks else ()
        self.lines = [line for chunk in self._chunks for line in chunk.lines]

    def column(self, name: str) -> Floats:
        """Numbers of at least 0."""
        parts = [chunk.numbers(name, allowed="a number of at least 0", check=at_least(0.0)) for chunk in self._chunks]
        return np.concatenate(parts) if parts else np.zeros(0)


def _lengths(
    read: _Table, columns: RateColumns, column: str | None, rate: Floats, like: LengthQuantiles
) -> tuple[LengthQuantiles, Floats]:
    """The distribution over all requests and each row's mean relative to its mean; the shape is that of ``like``."""
    if column is None or column not in read.header:
        return like, np.ones(len(rate))
    means = read.column(column)
    if columns.tokens_in_all:
        means = np.divide(means, rate, out=np.zeros(len(rate)), where=rate > 0)
    known = (means > 0) & (rate > 0)
    if not known.any():
        return like, np.ones(len(rate))
    mean = float((means[known] * rate[known]).sum() / rate[known].sum())
    return like.scaled(mean / like.mean()), np.where(known, means / mean, 1.0)


def _noise(read: _Table, columns: RateColumns, rate: Floats) -> Floats:
    if columns.band is None or not set(columns.band) <= set(read.header):
        return np.zeros(len(rate))
    low, high = (read.column(name) for name in columns.band)
    return noise_of_band(low, rate, high)


def _cv(read: _Table, columns: RateColumns, *, default: float) -> float:
    """The median row's."""
    if columns.cv is None or columns.cv not in read.header:
        return default
    known = read.column(columns.cv)
    positive = known[known > 0]
    return float(np.median(positive)) if len(positive) else default
