"""The shape of a service's requests: decayed moments of prompt and output lengths."""

from __future__ import annotations

from autoscaler.domain.capacity import RequestShape
from autoscaler.domain.reading import Histogram, Unknown, UnknownReason
from autoscaler.domain.state import LengthSums
from autoscaler.policy.progress import Progress

# Fewer requests than this say little about their lengths.
_ENOUGH = 5.0


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
    prompts, prompt, prompt_sq = sums.prompts, sums.prompt, sums.prompt_sq
    outputs, output, output_sq = sums.outputs, sums.output, sums.output_sq
    if done.prompt_length is not None and done.prompt_length.count > 0:
        prompts += done.prompt_length.count
        prompt += done.prompt_length.total
        prompt_sq += _squares(done.prompt_length)
    elif done.prompt_length is None and done.prompt_tokens and done.ttft is not None and done.ttft.count > 0:
        prompts += done.ttft.count
        prompt += done.prompt_tokens
        prompt_sq += 2 * done.prompt_tokens**2 / done.ttft.count
    if done.output_length is not None and done.output_length.count > 0:
        outputs += done.output_length.count
        output += done.output_length.total
        output_sq += _squares(done.output_length)
    elif done.output_length is None and done.generation_tokens and done.completed:
        outputs += done.completed
        output += done.generation_tokens
        output_sq += 2 * done.generation_tokens**2 / done.completed
    return LengthSums(
        prompts=prompts,
        prompt=prompt,
        prompt_sq=prompt_sq,
        outputs=outputs,
        output=output,
        output_sq=output_sq,
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


def _squares(histogram: Histogram) -> float:
    """Sum of squared observations: each at its bucket's middle, scaled to the true mean."""
    squares = middles = below_bound = below = 0.0
    for bound, count in zip(histogram.bounds, histogram.counts, strict=True):
        middle = (below_bound + bound) / 2
        squares += (count - below) * middle * middle
        middles += (count - below) * middle
        below_bound, below = bound, count
    above = histogram.count - below
    squares += above * below_bound * below_bound
    middles += above * below_bound
    return squares * (histogram.total / middles) ** 2 if middles > 0 else 0.0
