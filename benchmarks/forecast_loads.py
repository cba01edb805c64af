"""Loads to judge forecasters on: formulas, and rates or requests of public traces brought to 15-second bins."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from predictors.backtest import Load
from predictors.timeline import BIN_S

Floats = NDArray[np.float64]

DAY_S = 86400.0
BRIDGE = 0.7  # of a series' own diffusion, inside its intervals
LEAST_RPS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLoad:
    """``skip_s`` at the beginning are learned from but not judged."""

    name: str
    load: Load
    skip_s: float


def formulas(seed: int) -> Iterator[NamedLoad]:
    """Three days each of a daily wave, the same with bursts, and jobs that come and go."""
    rng = np.random.default_rng(seed)
    time_s = np.arange(0.0, 3 * DAY_S, BIN_S)
    wave = 20.0 * np.exp(0.8 * np.sin(2 * np.pi * time_s / DAY_S))
    # Bursts: about twelve a day begin at once, treble the load and fade with a time constant of ten minutes.
    begun = rng.random(len(time_s)) < 12 * BIN_S / DAY_S
    fading = np.convolve(begun, np.exp(-np.arange(240) * BIN_S / 600.0))[: len(time_s)]
    jobs = np.where(np.repeat(rng.random(len(time_s) // 80) < 0.3, 80), 30.0, 0.2)
    for name, rates in (("wave", wave), ("wave and bursts", wave * (1 + 2 * fading)), ("jobs", jobs)):
        yield NamedLoad(name=name, load=_counted(rates, dispersion=2.0, rng=rng), skip_s=DAY_S)


def traces(folder: Path, seed: int) -> Iterator[NamedLoad]:
    """Those of ``TRACES`` that ``folder`` has. Raises OSError where one can't be read, ValueError for no rows."""
    for name, (file, read, skip_s) in TRACES.items():
        if (folder / file).exists():
            rng = np.random.default_rng(seed)
            yield NamedLoad(name=name, load=read(folder / file, rng), skip_s=skip_s)


def _columns(path: Path) -> Mapping[str, list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows:
        raise ValueError(f"{path} has no rows")
    return {name: [row[name] for row in rows] for name in rows[0]}


def _servegen(path: Path, rng: np.random.Generator) -> Load:
    """Rates of ten minutes; counts as dispersed as the mean client's intervals (Gamma renewal: cv squared)."""
    columns = _columns(path)
    rates = np.array(columns["rate_rps"], dtype=float)[:1009]  # a week
    dispersion = float(np.median(np.array(columns["mean_client_cv"], dtype=float)) ** 2)
    return _counted(_inside(rates, interval_s=600.0, rng=rng), dispersion=dispersion, rng=rng)


def _largest_client(path: Path, rng: np.random.Generator) -> Load:
    columns = _columns(path)
    rates = np.array(columns[list(columns)[1]], dtype=float)[:1009]
    return _counted(_inside(rates, interval_s=600.0, rng=rng), dispersion=4.0, rng=rng)


def _azure_week(path: Path, rng: np.random.Generator) -> Load:
    """A curve read off a plot, 7.2 minutes a point; its band is taken as +-2 deviations of one-minute means."""
    columns = {name: np.array(values, dtype=float) for name, values in _columns(path).items()}
    minutes = np.arange(columns["minute"][0], columns["minute"][-1], 7.2)
    rates = np.exp(np.interp(minutes, columns["minute"], np.log(columns["req_per_min_mid"] / 60.0)))
    inside = _inside(rates, interval_s=432.0, rng=rng)
    sigma = float(np.median(np.log(columns["req_per_min_hi"] / columns["req_per_min_lo"]))) / 4
    noise = np.repeat(rng.normal(0.0, sigma, len(inside) // 4 + 1), 4)[: len(inside)]
    return _counted(inside * np.exp(noise), dispersion=1.4, rng=rng)


def _azure_requests(path: Path, rng: np.random.Generator) -> Load:
    stamps = [datetime.fromisoformat(stamp[:26]) for stamp in _columns(path)["TIMESTAMP"]]
    return _binned(np.array([(stamp - stamps[0]).total_seconds() for stamp in stamps]))


def _mooncake(path: Path, rng: np.random.Generator) -> Load:
    return _binned(np.array(_columns(path)["timestamp_ms"], dtype=float) / 1000.0)


def _load_events(path: Path, rng: np.random.Generator) -> Load:
    """Model loads, stamped with the end of a span of 57 s: spread evenly over it."""
    times_s = np.array(_columns(path)["t_s"], dtype=float)
    return _binned(times_s - rng.uniform(0.0, 57.0, len(times_s)))


def _binned(times_s: Floats) -> Load:
    counts, _ = np.histogram(times_s, np.arange(times_s.min(), times_s.max(), BIN_S))
    return Load.regular(counts / BIN_S, interval_s=BIN_S)


def _inside(rates: Floats, *, interval_s: float, rng: np.random.Generator) -> Floats:
    """Rates of bins between the middles of intervals: linear in the logarithm, and a Brownian bridge around that."""
    knots_s = interval_s * np.arange(len(rates))
    bins_s = np.arange(knots_s[0], knots_s[-1], BIN_S) + BIN_S / 2
    logs = np.log(np.maximum(rates, LEAST_RPS))
    per_bin = BRIDGE * np.std(np.diff(logs)) * np.sqrt(BIN_S / interval_s)
    walk = np.concatenate(([0.0], rng.normal(0.0, per_bin, len(bins_s)).cumsum()))
    walk_s = np.append(bins_s - BIN_S / 2, bins_s[-1] + BIN_S / 2)
    bridge = walk - np.interp(walk_s, knots_s, np.interp(knots_s, walk_s, walk))
    inside: Floats = np.exp(np.interp(bins_s, knots_s, logs) + np.interp(bins_s, walk_s, bridge))
    return inside


def _counted(rates: Floats, *, dispersion: float, rng: np.random.Generator) -> Load:
    """Negative-binomial counts of the given variance-to-mean ratio (> 1)."""
    counts = rng.negative_binomial(rates * BIN_S / (dispersion - 1.0), 1.0 / dispersion)
    return Load.regular(counts / BIN_S, interval_s=BIN_S)


# name: file, how to read it, what is not judged at its beginning
TRACES: Mapping[str, tuple[str, Callable[[Path, np.random.Generator], Load], float]] = {
    "Azure 2024 conversation, 7 d": ("azure2024_week_conv_digitised.csv", _azure_week, DAY_S),
    "ServeGen m-large, 7 d": ("servegen_m-large_10min.csv", _servegen, DAY_S),
    "ServeGen m-large, its largest client, 7 d": ("servegen_m-large_top30clients.csv", _largest_client, DAY_S),
    "ServeGen deepseek-r1, 1 d": ("servegen_deepseek-r1_10min.csv", _servegen, 3 * 3600.0),
    "GenTD26 model loads, 22 h": ("gentd26_basemodel_load.csv", _load_events, 3 * 3600.0),
    "Azure 2023 conversation, 1 h": ("azure2023_conv.csv", _azure_requests, 900.0),
    "Azure 2023 code, 1 h": ("azure2023_code.csv", _azure_requests, 900.0),
    "Mooncake conversation, 1 h": ("mooncake_conversation.csv", _mooncake, 900.0),
}
