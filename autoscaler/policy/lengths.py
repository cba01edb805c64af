"""The shape of a service's requests: decayed moments of prompt and output lengths."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from operator import mul

from autoscaler.domain.capacity import RequestShape
from autoscaler.domain.reading import Histogram, MaybeHistogram, Unknown, UnknownReason
from autoscaler.domain.state import LengthSums
from autoscaler.policy.progress import Progress, sums_since

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


def added(sums: LengthSums, done: Progress) -> LengthSums:
    """With one replica's news: from the length histograms, or else (means only) from the token counters."""
    now, then = done.reading, done.earlier
    prompts = _moments(now.prompt_length, then.prompt_length if then else None)
    if prompts is None:
        prompts = _of_means(done.first_tokens, done.prompt_tokens)
    outputs = _moments(now.output_length, then.output_length if then else None)
    if outputs is None:
        outputs = _of_means(done.completed, done.generation_tokens)
    if not prompts[0] and not outputs[0]:
        return sums
    return LengthSums(
        prompts=sums.prompts + prompts[0],
        prompt=sums.prompt + prompts[1],
        prompt_sq=sums.prompt_sq + prompts[2],
        outputs=sums.outputs + outputs[0],
        output=sums.output + outputs[1],
        output_sq=sums.output_sq + outputs[2],
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


def _of_means(requests: float | None, tokens: float | None) -> tuple[float, float, float]:
    """Number, sum and sum of squares of lengths of which only the mean is known, taken as exponential."""
    if not requests or not tokens or tokens > _LONGEST * requests:
        return 0.0, 0.0, 0.0
    return requests, tokens, 2 * tokens * tokens / requests


def _moments(now: MaybeHistogram, then: MaybeHistogram | None) -> tuple[float, float, float] | None:
    """Number, sum and sum of squares of the lengths observed since; None where they are not shown, or ran back.

    Each is taken at its bucket's middle, scaled to the true mean. Both sums are linear in the cumulative counts, so
    they are taken of each page and subtracted.
    """
    new = sums_since(now, then)
    if new is None or isinstance(now, Unknown) or isinstance(then, Unknown):
        return None
    if new.count <= 0:
        return 0.0, 0.0, 0.0
    middles, squares = _weighted(now)
    if then is not None:
        if then.bounds != now.bounds:
            return None
        middles_then, squares_then = _weighted(then)
        middles, squares = middles - middles_then, squares - squares_then
    if middles <= 0 or squares <= 0 or not 0 < new.total / new.count <= _LONGEST:
        return None
    return new.count, new.total, squares * (new.total / middles) ** 2


def _weighted(histogram: Histogram) -> tuple[float, float]:
    """Sum of the bucket middles over all observations, and of their squares."""
    of_middles, of_squares, last = _weights(histogram.bounds)
    return (
        sum(map(mul, histogram.counts, of_middles)) + histogram.count * last,
        sum(map(mul, histogram.counts, of_squares)) + histogram.count * last * last,
    )


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
