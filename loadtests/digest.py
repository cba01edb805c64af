"""A trace in a few kilobytes: arrivals per interval, how irregular they are, and quantiles of the lengths.

``python -m loadtests.digest FILE.csv --name ... --source ... --licence ...`` makes one from a public file and
prints it. Two kinds of file are read: a row for each request (TIMESTAMP, ContextTokens, GeneratedTokens:
Azure's LLM inference traces), and a row for each moment with rates (minute, req_per_min_mid, in_tok_per_min,
out_tok_per_min: a plot that was read off).
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from autoscaler.codec import decode, to_plain
from loadtests.lengths import LengthQuantiles

SHIPPED = Path(__file__).parent / "digests"
_PROBABILITIES = (
    *(0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8),
    *(0.85, 0.9, 0.925, 0.95, 0.975, 0.98, 0.99, 0.995, 0.999, 1.0),
)
REQUEST_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
RATE_COLUMNS = ("minute", "req_per_min_mid", "in_tok_per_min", "out_tok_per_min")


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """What is kept of a trace.

    ``arrivals``: requests in each interval of ``interval_s``. ``dispersion``: variance over mean of the
    counts of single seconds inside the intervals (1 for a Poisson stream). ``source``, ``licence``, ``note``:
    where it is from.
    """

    name: str
    source: str
    licence: str
    note: str
    interval_s: float
    dispersion: float
    prompt_tokens: LengthQuantiles
    output_tokens: LengthQuantiles
    arrivals: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.interval_s > 0 or not self.dispersion > 0:
            raise ValueError(f"interval_s and dispersion must be above 0, got {self.interval_s} and {self.dispersion}")
        if not self.arrivals or min(self.arrivals) < 0:
            raise ValueError("a digest needs at least one interval and no negative count")

    @property
    def duration_s(self) -> float:
        """Length of the trace in seconds."""
        return self.interval_s * len(self.arrivals)

    def arrivals_between(self, from_s: float, until_s: float) -> tuple[int, ...]:
        """The counts of the intervals from ``from_s`` to ``until_s``, both on an interval's edge."""
        first, last = from_s / self.interval_s, until_s / self.interval_s
        if not (first.is_integer() and last.is_integer() and 0 <= first < last <= len(self.arrivals)):
            raise ValueError(
                f"digest {self.name}: need 0 <= from < until <= {self.duration_s:g} s in multiples of "
                f"{self.interval_s:g} s, got {from_s:g} and {until_s:g}"
            )
        return self.arrivals[int(first) : int(last)]


def shipped(name: str) -> Digest:
    """A digest that comes with the project. Raises ValueError that lists them."""
    path = SHIPPED / f"{name}.json"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in SHIPPED.glob("*.json")))
        raise ValueError(f"no digest {name!r}; there are {known}")
    return read(path)


def read(path: Path) -> Digest:
    """A digest from its file. Raises ValueError where the file is not one."""
    try:
        return decode(Digest, path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def to_json(digest: Digest) -> str:
    """The file's text: a line for each key."""
    plain = to_plain(digest)
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in plain.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def of_requests(rows: Iterable[Mapping[str, str]], *, like: Digest, interval_s: float) -> Digest:
    """From a row a request, in any order; name and provenance as in ``like``. Memory does not grow with
    the rows.
    """
    seconds: Counter[int] = Counter()
    prompts: Counter[int] = Counter()
    outputs: Counter[int] = Counter()
    for row in rows:
        seconds[int(datetime.fromisoformat(row["TIMESTAMP"]).timestamp())] += 1
        prompts[max(1, int(row["ContextTokens"]))] += 1
        outputs[max(1, int(row["GeneratedTokens"]))] += 1
    if not seconds:
        raise ValueError("the file has no rows")
    first = min(seconds)
    counts = np.zeros(max(seconds) - first + 1)
    for second, count in seconds.items():
        counts[second - first] = count
    per_interval = max(1, int(interval_s))
    whole = counts[: len(counts) // per_interval * per_interval].reshape(-1, per_interval)
    if not whole.size:
        raise ValueError(f"the file spans {len(counts)} s, less than one interval of {interval_s:g} s")
    return dataclasses.replace(
        like,
        interval_s=float(per_interval),
        dispersion=_dispersion(whole),
        prompt_tokens=_quantiles(prompts),
        output_tokens=_quantiles(outputs),
        arrivals=tuple(int(count) for count in whole.sum(axis=1)),
    )


def of_rates(rows: Iterable[Mapping[str, str]], *, like: Digest, interval_s: float) -> Digest:
    """From a row a moment; dispersion and the lengths' shape as in ``like``, scaled to the file's mean
    lengths.
    """
    table = np.array([[float(row[column]) for column in RATE_COLUMNS] for row in rows])
    if len(table) < 2:
        raise ValueError("the file needs at least two rows")
    minutes, requests, prompt_tokens, output_tokens = table.T
    grid = np.arange(0.5, np.floor(minutes[-1]))
    per_minute = np.interp(grid, minutes, requests)
    width = max(1, int(interval_s // 60))
    # The last point stands for the time after it too, so a week that ends minutes early still has its last interval.
    padded = np.concatenate([per_minute, np.full(-len(per_minute) % width, per_minute[-1])])
    return dataclasses.replace(
        like,
        interval_s=60.0 * width,
        prompt_tokens=_scaled_to(like.prompt_tokens, prompt_tokens.sum() / requests.sum()),
        output_tokens=_scaled_to(like.output_tokens, output_tokens.sum() / requests.sum()),
        arrivals=tuple(round(count) for count in padded.reshape(-1, width).sum(axis=1)),
    )


def _dispersion(seconds_of_intervals: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
    """Pooled over the intervals, so that a change of the rate from one to the next is not counted as
    irregular.
    """
    if seconds_of_intervals.shape[1] < 2:
        return 1.0
    spread = seconds_of_intervals.var(axis=1, ddof=1).mean()
    return round(max(0.05, float(spread / seconds_of_intervals.mean())), 3)


def _quantiles(lengths: Counter[int]) -> LengthQuantiles:
    values = np.array(sorted(lengths))
    reached = np.cumsum([lengths[int(value)] for value in values]) / lengths.total()
    at = np.searchsorted(reached, np.array(_PROBABILITIES) - 1e-12)
    return LengthQuantiles(_PROBABILITIES, tuple(float(value) for value in values[at]))


def _scaled_to(lengths: LengthQuantiles, mean: float) -> LengthQuantiles:
    scaled = lengths.scaled(mean / lengths.mean())
    return LengthQuantiles(scaled.probabilities, tuple(round(count, 1) for count in scaled.tokens))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the digest of a CSV file."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.digest", description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--source", required=True, help="where the file is published, and what to cite")
    parser.add_argument("--licence", required=True)
    parser.add_argument("--note", default="")
    parser.add_argument("--interval-s", type=float, default=10.0)
    parser.add_argument(
        "--like", default=None, metavar="DIGEST", help="a table of rates takes dispersion and length shape from it"
    )
    given = parser.parse_args(arguments)
    try:
        with given.file.open(newline="") as file:
            print(to_json(_of_file(csv.DictReader(file), given)), end="")
    except (OSError, ValueError) as error:
        parser.error(f"{given.file}: {error}")


def _of_file(rows: csv.DictReader[str], given: argparse.Namespace) -> Digest:
    columns = set(rows.fieldnames or ())
    one = LengthQuantiles((0.0, 1.0), (1.0, 1.0))
    shape = shipped(given.like) if given.like else None
    like = Digest(
        name=given.name,
        source=given.source,
        licence=given.licence,
        note=given.note,
        interval_s=given.interval_s,
        dispersion=shape.dispersion if shape else 1.0,
        prompt_tokens=shape.prompt_tokens if shape else one,
        output_tokens=shape.output_tokens if shape else one,
        arrivals=(0,),
    )
    if columns >= set(REQUEST_COLUMNS):
        return of_requests(rows, like=like, interval_s=given.interval_s)
    if columns >= set(RATE_COLUMNS):
        if shape is None:
            raise ValueError("a table of rates has no lengths of single requests: give --like DIGEST")
        return of_rates(rows, like=like, interval_s=given.interval_s)
    raise ValueError(
        f"need the columns {', '.join(REQUEST_COLUMNS)} or {', '.join(RATE_COLUMNS)}; got {', '.join(sorted(columns))}"
    )


if __name__ == "__main__":
    main()
