"""What is kept of a batch server's windows, and the batch time fitted to them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from autoscaler.domain.capacity import CapacityLimit, CapacitySource, LoadSample, ReplicaCapacity
from autoscaler.domain.reading import Measured, Unknown, UnknownReason
from autoscaler.domain.service import Slo, Variant
from predictors.batch_time import BatchTime, rate_in_time

Array = NDArray[np.float64]

_PER_BUCKET = 3
_BUCKETS = 16
_LEAST_S, _MOST_S = 1e-7, 1e4
_MOST_BATCH = 1e5
_PRIOR = 0.01  # weight, in windows, of "twice the batch takes twice as long", which promises nothing from batching
_BEYOND_SEEN = 2.0  # batches so much larger than any seen are counted on
# A window of a busy instance reads up to so much above 1: executions are counted whole though the window cuts its first
# and last, and durations are means over requests. A second instance taken for one is the safe side.
_BUSY_ERROR = 0.25
_DIGITS = 2  # of what the rate is computed from: a fit that wavers in the third doesn't move it

# Columns of the rows: when, mean batch, seconds of an execution, executing instances, bucket.
_AT, _BATCH, _EXEC, _BUSY, _BUCKET = range(5)


def empty() -> Array:
    """No window yet."""
    return np.zeros((0, 5))


def with_window(rows: Array, sample: LoadSample) -> Array:
    """With one more window, where it tells of batches; at most three of a size are kept, the latest."""
    batch, exec_s = _within(sample.batch, 1.0 - 1e-9, _MOST_BATCH), _within(sample.exec_s, _LEAST_S, _MOST_S)
    busy = _within(sample.executing, 0.0, _MOST_BATCH)
    if batch is None or exec_s is None or busy is None:
        return rows
    bucket = float(min(int(2.0 * math.log2(batch + 1e-9)), _BUCKETS - 1))
    row = np.array([sample.at_s, batch, exec_s, busy, bucket])
    alike = (rows[:, _BUCKET] == bucket).nonzero()[0]
    if len(alike) < _PER_BUCKET:
        return np.concatenate((rows, row[None, :]))
    kept = rows.copy()
    kept[alike[kept[alike, _AT].argmin()]] = row
    return kept


def declared(variant: Variant) -> BatchTime | None:
    """What a step time without terms for tokens says of executions: c is alpha, d is beta."""
    step = variant.step_time
    if step is None or step.e_s > 0 or step.a_s > 0:
        return None
    return BatchTime(alpha_s=step.c_s, beta_s=step.d_s)


def fitted(rows: Array, prior: BatchTime | None = None) -> BatchTime:
    """alpha and beta by least squares over the windows, neither below zero.

    The durations are means over requests, which see a large batch more often than a mean over executions does: with
    random batches alpha comes out about one beta too large, which is the safe side too.
    Windows of one batch size can't tell them apart; then ``prior`` does. Without one all of the time counts as beta's,
    which is the safe side: the rate is then what was seen, and batching more is no promise.
    """
    batch, exec_s = rows[:, _BATCH], rows[:, _EXEC]
    scale = float(batch.mean())
    weight = math.sqrt(_PRIOR)
    expected = [(weight, 0.0, 0.0)]
    if prior is not None:
        expected = [(weight, 0.0, weight * prior.alpha_s), (0.0, weight, weight * prior.beta_s * scale)]
    equations = np.vstack((np.column_stack((np.ones_like(batch), batch / scale, exec_s)), expected))
    alpha_s, slope = np.linalg.lstsq(equations[:, :2], equations[:, 2], rcond=None)[0].tolist()
    if alpha_s <= 0.0:
        return BatchTime(alpha_s=0.0, beta_s=float((exec_s @ batch) / (batch @ batch)))
    if slope <= 0.0:
        return BatchTime(alpha_s=float(exec_s.mean()), beta_s=0.0)
    return BatchTime(alpha_s=alpha_s, beta_s=slope / scale)


def capacity_of(rows: Array, *, variant: Variant, slo: Slo) -> ReplicaCapacity | Unknown:
    """What one replica serves in time: by what was seen, or before that by what is ``declared``, one of which there is.

    ``variant.max_num_seqs`` is the server's largest batch, where it is known.
    """
    told_s = declared(variant)
    time = told_s if told_s is not None and not len(rows) else fitted(rows, told_s)
    seen = float(rows[:, _BATCH].max(initial=1.0))
    largest = variant.max_num_seqs or max(1, math.ceil(_BEYOND_SEEN * seen - 1e-9))
    instances = max(1, math.ceil(_busiest(rows) - _BUSY_ERROR))
    rounded = BatchTime(alpha_s=_rounded(time.alpha_s), beta_s=_rounded(time.beta_s))
    rps = rate_in_time(rounded, slo, largest=largest, instances=instances)
    told = f"an execution takes {time.alpha_s:.3g} s + {time.beta_s:.3g} s x batch ({len(rows)} windows)"
    if rps is None:
        return Unknown(UnknownReason.UNSATISFIABLE, f"{told}: one request alone is late")
    bound = variant.max_num_seqs is None
    return ReplicaCapacity(
        rps=rps,
        limit=CapacityLimit.LARGEST_SEEN if bound else CapacityLimit.BATCH,
        source=CapacitySource.FITTED if len(rows) else CapacitySource.PROFILE,
        detail=f"{told}, batches of at most {largest}" + (" (twice the largest seen)" if bound else ""),
    )


def _busiest(rows: Array) -> float:
    """Executions at a time in the busiest window but one: a single window is no proof of another instance."""
    busiest = np.sort(rows[:, _BUSY])[-2:]
    return float(busiest.min()) if len(busiest) > 1 else 1.0


def _within(value: Measured, least: float, most: float) -> float | None:
    return None if isinstance(value, Unknown) or not least <= value <= most else float(value)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
