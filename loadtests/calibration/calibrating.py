"""The whole of it: drive an engine, fit its coefficients to some loads, and predict others with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from loadtests.calibration.coefficients import Coefficients
from loadtests.calibration.driving import Engine, drive, drive_once
from loadtests.calibration.figures import Figures, measured
from loadtests.calibration.fitting import fitted
from loadtests.calibration.replaying import predicted
from loadtests.calibration.steady import SteadyLoad

_WARMUP_S = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One load, measured and simulated turn by turn. ``is_fitted``: the coefficients come from it (and another).

    Its errors are relative, 0.1 where the simulation says 10 % too much, and those of the median turn: one in which the
    machine was busy with something else says nothing about the engine.
    """

    load: SteadyLoad
    is_fitted: bool
    measured: tuple[Figures, ...]
    simulated: tuple[Figures, ...]

    @property
    def ttft_error(self) -> float:
        """Of the median time to first token."""
        return self._error(lambda figures: figures.ttft_s)

    @property
    def itl_error(self) -> float:
        """Of the median time between tokens."""
        return self._error(lambda figures: figures.itl_s)

    @property
    def throughput_error(self) -> float:
        """Of the output tokens per second."""
        return self._error(lambda figures: figures.throughput_tps)

    @property
    def unsteadiness(self) -> float:
        """How much faster the engine was in its best turn than in its worst, beyond what the simulation explains: 0.2
        where its gaps between tokens were a fifth longer. What the simulation has wrong in all turns alike is not in
        it, nor that their draws differ (which makes gaps differ by up to a third): most of it is the machine's.
        """
        pairs = zip(self.measured, self.simulated, strict=True)
        ratios = [measured.itl_s / simulated.itl_s for measured, simulated in pairs]
        return max(ratios) / min(ratios) - 1

    def _error(self, figure: Callable[[Figures], float]) -> float:
        pairs = zip(self.measured, self.simulated, strict=True)
        return median(figure(simulated) / figure(measured) - 1 for measured, simulated in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The coefficients, and how well they describe the loads that they are fitted to and those that they are not."""

    coefficients: Coefficients
    compared: tuple[Compared, ...]


def calibrate(
    fit: Sequence[SteadyLoad],
    predict: Sequence[SteadyLoad],
    *,
    engine: Engine,
    turns: int,
    max_num_seqs: int,
    chunk_tokens: int,
    tell: Callable[[str], None],
) -> Calibration:
    """Drive the engine with all loads, after a short one that warms it up; fit to ``fit`` alone.

    ``tell`` hears what is done next. Raises CalibrationError where no coefficients can be told, and ValueError where
    too few requests finished.
    """
    tell("warming up")
    drive_once(fit[0].warmup(_WARMUP_S), engine)
    driven = drive([*fit, *predict], turns=turns, engine=engine, tell=tell)
    coefficients = fitted([driven[load] for load in fit], max_num_seqs=max_num_seqs, chunk_tokens=chunk_tokens)
    compared = [
        Compared(
            load=load,
            is_fitted=load in fit,
            measured=tuple(measured(turn.records) for turn in its_turns),
            simulated=tuple(predicted(turn.arrivals, coefficients) for turn in its_turns),
        )
        for load, its_turns in driven.items()
    ]
    return Calibration(coefficients=coefficients, compared=tuple(compared))
