"""Records of several seeds -> how a policy with a setting stands on a case, and which stand best."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loadtests.compare.records import Record
from loadtests.compare.study import OURS

# Two costs that are closer than this tie: seeds alone move them by as much.
TIE = 0.01
# Attained shares are random; so much below the target still counts as attained.
SHARE_SLACK = 0.0005


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Means over the seeds of one policy with one setting on one case.

    ``ratio``: GPU-hours in parts of the bound; ``least_ratio``, ``most_ratio``, ``worst_share``: of single seeds.
    ``missed``: share of the requests.
    """

    case: str
    policy: str
    knob: float | None
    seeds: int
    share_in_slo: float
    worst_share: float
    gpu_hours: float
    bound_hours: float
    ratio: float
    least_ratio: float
    most_ratio: float
    changes_per_hour: float
    ttft_p99_s: float | None

    @property
    def missed(self) -> float:
        """Share of the requests that was not in SLO."""
        return 1.0 - self.share_in_slo

    @property
    def is_ours(self) -> bool:
        """Our controller, in whatever setting."""
        return self.policy == OURS or self.policy.startswith(f"{OURS} ")

    def attains(self, target: float) -> bool:
        """Whether it keeps the promise."""
        return self.share_in_slo >= target - SHARE_SLACK


def standings(records: Iterable[Record]) -> list[Standing]:
    """In the order in which the policies first appear."""
    groups: dict[tuple[str, str, float | None], list[Record]] = defaultdict(list)
    for record in records:
        groups[record.case, record.policy, record.knob].append(record)
    return [_standing(each) for each in groups.values()]


def best_setting(stood: Sequence[Standing], *, target: float) -> Standing | None:
    """The cheapest that keeps the promise; None: none does. What was run on fewer seeds than others doesn't count."""
    most = max((each.seeds for each in stood), default=0)
    sure = [each for each in stood if each.seeds == most and each.attains(target)]
    return min(sure, key=lambda each: each.gpu_hours, default=None)


def geometric_mean(values: Sequence[float]) -> float:
    """Of positive numbers."""
    return math.exp(sum(map(math.log, values)) / len(values))


def _standing(records: Sequence[Record]) -> Standing:
    count = len(records)
    first = records[0]
    waits = [record.ttft_p99_s for record in records if record.ttft_p99_s is not None]
    return Standing(
        case=first.case,
        policy=first.policy,
        knob=first.knob,
        seeds=count,
        share_in_slo=sum(record.share_in_slo for record in records) / count,
        worst_share=min(record.share_in_slo for record in records),
        gpu_hours=sum(record.gpu_hours for record in records) / count,
        bound_hours=sum(record.bound_hours for record in records) / count,
        ratio=sum(record.ratio for record in records) / count,
        least_ratio=min(record.ratio for record in records),
        most_ratio=max(record.ratio for record in records),
        changes_per_hour=sum(record.changes / record.hours for record in records) / count,
        ttft_p99_s=sum(waits) / len(waits) if waits else None,
    )
