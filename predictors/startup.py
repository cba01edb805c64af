"""How long a new replica takes to be ready: the lead time that a forecast has to look ahead."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupTimes:
    """A ``StartupModel``: the ``share`` quantile (P90) of start-up times; of fewer than ``few`` the longest counts."""

    share: float = 0.9
    few: int = 10

    def lead_time_s(self, *, starts_s: Sequence[float], still_starting_s: Sequence[float], assumed_s: float) -> float:
        """Seconds that the next start will take, rather less.

        ``starts_s``: measured start-up times; the quantile is interpolated linearly between them.
        ``still_starting_s``: how long the starts under way have taken so far. They will take longer (their times are
        censored): one above the estimate joins the sample as it stands and can only raise the result, one below it
        says nothing yet. ``assumed_s``: the estimate before a first start was measured.
        Raises ValueError for a time that is negative or not finite.
        """
        for name, times_s in (
            ("starts_s", starts_s),
            ("still_starting_s", still_starting_s),
            ("assumed_s", (assumed_s,)),
        ):
            if any(not math.isfinite(time_s) or time_s < 0 for time_s in times_s):
                raise ValueError(f"{name} must be finite and >= 0, got {list(times_s)}")
        estimate_s = self._quantile(starts_s) if starts_s else float(assumed_s)
        longer_s = [age_s for age_s in still_starting_s if age_s > estimate_s]
        return max(estimate_s, self._quantile([*starts_s, *longer_s])) if longer_s else estimate_s

    def _quantile(self, times_s: Sequence[float]) -> float:
        ordered = sorted(times_s)
        if len(ordered) < self.few:
            return ordered[-1]
        place = self.share * (len(ordered) - 1)
        below = min(int(place), len(ordered) - 2)
        return ordered[below] + (place - below) * (ordered[below + 1] - ordered[below])
