"""What the query API says, as typed values.

The API: https://prometheus.io/docs/prometheus/latest/querying/api/. Native histograms come under ``histograms`` and are
left out: an engine's page has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from autoscaler.domain.reading import Unknown, UnknownReason


@dataclass(frozen=True, slots=True)
class RangedSeries:
    """One series: its name ("" where an expression has none), labels, and samples (time in s, value as written)."""

    name: str
    labels: Mapping[str, str]
    samples: tuple[tuple[float, str], ...]


def read_answer(body: bytes) -> tuple[RangedSeries, ...] | Unknown:
    """The series of a successful matrix, or why there is none. A warning counts as a part that is missing."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return Unknown(UnknownReason.WRONG_CONTENT, f"no JSON: {body[:80]!r}; is this Prometheus's address?")
    if not isinstance(answer, dict) or answer.get("status") not in ("success", "error"):
        return Unknown(UnknownReason.WRONG_CONTENT, "JSON, but no answer of Prometheus's query API")
    if answer["status"] == "error":
        return Unknown(UnknownReason.HTTP_ERROR, f"{answer.get('errorType')}: {answer.get('error')}"[:300])
    if answer.get("warnings"):
        return Unknown(UnknownReason.HTTP_ERROR, f"a part of the answer may be missing: {answer['warnings']}"[:300])
    return _matrix(answer.get("data"))


def error_of(body: bytes) -> str:
    """What an answer with an error status says of itself, "" where it does not."""
    answer = read_answer(body)
    return answer.detail if isinstance(answer, Unknown) and answer.reason is UnknownReason.HTTP_ERROR else ""


def _matrix(data: object) -> tuple[RangedSeries, ...] | Unknown:
    if not isinstance(data, dict) or data.get("resultType") != "matrix" or not isinstance(data.get("result"), list):
        return Unknown(UnknownReason.WRONG_CONTENT, "an answer without series over time")
    try:
        return tuple([_series(each) for each in data["result"] if "values" in each])
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        return Unknown(UnknownReason.MALFORMED_PAGE, f"a series that can't be read: {error!r}"[:300])


def _series(source: Mapping[str, object]) -> RangedSeries:
    metric, values = source["metric"], source["values"]
    if not isinstance(metric, dict) or not isinstance(values, list):
        raise TypeError("metric or values")
    labels = {str(name): str(value) for name, value in metric.items()}
    name = labels.pop("__name__", "")
    return RangedSeries(name, labels, tuple([(float(at_s), _number(value)) for at_s, value in values]))


def _number(value: object) -> str:
    """A value as Prometheus writes numbers; Python alone reads 1_000 as one."""
    if not isinstance(value, str) or "_" in value or value != value.strip():
        raise ValueError(f"value {value!r}"[:100])
    float(value)
    return value
