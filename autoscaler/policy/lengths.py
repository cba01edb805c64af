"""The shape of a service's requests: decayed moments of prompt and output lengths."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from operator import mul

from autoscaler.domain.capacity import RequestShape
from autoscaler.domain.reading import Histogram, MaybeHistogram, Unknown, UnknownReason
from autoscaler.domain.state import LengthSums
from autoscaler.policy.progress import Progress, Sums, sums_since

# Fewer requests than this say little about their lengths.
_ENOUGH = 5.0

# Tokens; a longer mean is no length, whatever the page says.
_LONGEST = 1e9


def decayed(sums: LengthSums, *, span_s: float, half_life_s: float) -> LengthSums:
    """The sums after ``span_s`` without news."""
    keep = 0.5 ** (span_s / half_life_s)
    return LengthSums(
        prompts=sums.prompts * keep,
        prompt=sums.prompt * keep,
        prompt_sq=sums.prompt_sq * keep,
        outputs=sums.outputs * keep,
        output=sums.output * keep,
        output_sq=sums.output_sq * keep,
    )


def added(sums: LengthSums, news: Iterable[Progress]) -> LengthSums:
    """With the replicas' news: from the length histograms, or else (means only) from the token counters."""
    prompts, outputs = _Moments(), _Moments()
    for done in news:
        now, then = done.reading, done.earlier
        if not prompts.take(now.prompt_length, then.prompt_length if then else None):
            prompts.take_means(done.first_tokens, done.prompt_tokens)
        if not outputs.take(now.output_length, then.output_length if then else None):
            outputs.take_means(done.completed, done.generation_tokens)
    prompt, output = prompts.sums(), outputs.sums()
    if not prompt[0] and not output[0]:
        return sums
    return LengthSums(
        prompts=sums.prompts + prompt[0],
        prompt=sums.prompt + prompt[1],
        prompt_sq=sums.prompt_sq + prompt[2],
        outputs=sums.outputs + output[0],
        output=sums.output + output[1],
        output_sq=sums.output_sq + output[2],
    )


def shape(sums: LengthSums) -> RequestShape | Unknown:
    """Moments per request; prompt and output lengths are taken as independent (they are exported apart)."""
    if sums.prompts < _ENOUGH or sums.outputs < _ENOUGH:
        return Unknown(UnknownReason.NO_OBSERVATIONS, "too few finished requests to know their lengths")
    prompt, output = sums.prompt / sums.prompts, sums.output / sums.outputs
    if prompt <= 0 or output <= 0:
        return Unknown(UnknownReason.NO_OBSERVATIONS, "requests without tokens")
    return RequestShape(
        prompt=prompt,
        output=output,
        prompt_sq=max(prompt * prompt, sums.prompt_sq / sums.prompts),
        output_sq=max(output * output, sums.output_sq / sums.outputs),
        prompt_x_output=prompt * output,
    )


class _Moments:
    """Number, sum and sum of squares of the lengths that the replicas of a service observed in a tick.

    Histograms with the same bounds are added up first: an observation is taken at its bucket's middle, scaled to the
    true mean of all, and the sums over a bucket's middle are linear in the cumulative counts.
    """

    def __init__(self) -> None:
        self._groups: dict[tuple[float, ...], _Group] = {}
        self._count = self._total = self._squares = 0.0

    def take(self, now: MaybeHistogram, then: MaybeHistogram | None) -> bool:
        """A histogram's new observations; False where they are not shown, or ran back."""
        new = sums_since(now, then)
        if new is None or isinstance(now, Unknown) or isinstance(then, Unknown):
            return False
        if new.number <= 0:
            return True
        if (then is not None and then.bounds != now.bounds) or not 0 < new.total / new.number <= _LONGEST:
            return False
        group = self._groups.get(now.bounds)
        if group is None:
            group = self._groups[now.bounds] = _Group()
        group.take(now, then, new)
        return True

    def take_means(self, requests: float | None, tokens: float | None) -> None:
        """Lengths of which only the mean is known, taken as exponential."""
        if requests and tokens and tokens <= _LONGEST * requests:
            self._count += requests
            self._total += tokens
            self._squares += 2 * tokens * tokens / requests

    def sums(self) -> tuple[float, float, float]:
        """Number, sum, sum of squares."""
        count, total, squares = self._count, self._total, self._squares
        for bounds, group in self._groups.items():
            of_middles, of_squares, last = _weights(bounds)
            counts = group.counts()
            middles = sum(map(mul, counts, of_middles)) + group.count * last
            squared = sum(map(mul, counts, of_squares)) + group.count * last * last
            if middles > 0 and squared > 0:
                count, total = count + group.count, total + group.total
                squares += squared * (group.total / middles) ** 2
        return count, total, squares


@dataclass(slots=True)
class _Group:
    """Cumulative counts by bucket now and then, and the number and total of what is new, over the replicas."""

    now: list[tuple[float, ...]] = field(default_factory=list)
    then: list[tuple[float, ...]] = field(default_factory=list)
    count: float = 0.0
    total: float = 0.0

    def take(self, now: Histogram, then: Histogram | None, new: Sums) -> None:
        self.now.append(now.counts)
        if then is not None:
            self.then.append(then.counts)
        self.count += new.number
        self.total += new.total

    def counts(self) -> list[float]:
        """New observations by cumulative bucket."""
        sums = [sum(column, 0.0) for column in zip(*self.now, strict=True)]
        if not self.then:
            return sums
        return [new - sum(column) for new, column in zip(sums, zip(*self.then, strict=True), strict=True)]


@lru_cache(maxsize=64)
def _weights(bounds: tuple[float, ...]) -> tuple[tuple[float, ...], tuple[float, ...], float]:
    """What each cumulative count adds to the two sums: its bucket's middle (squared) less that of the next bucket."""
    edges = (0.0, *bounds)
    middles = [(low + high) / 2 for low, high in pairwise(edges)] + [edges[-1]]
    return (
        tuple([here - above for here, above in pairwise(middles)]),
        tuple([here * here - above * above for here, above in pairwise(middles)]),
        edges[-1],
    )
