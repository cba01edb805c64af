"""What a running sequence holds, against a batch that is filled token by token."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.domain.capacity import RequestShape

LENGTHS = st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 300)), min_size=1, max_size=30)


@given(LENGTHS)
def test_the_context_is_that_of_the_steps_that_requests_are_in(requests: list[tuple[int, int]]) -> None:
    held = [prompt + made for prompt, output in requests for made in range(output)]
    number = len(requests)
    shape = RequestShape(
        prompt=sum(prompt for prompt, _ in requests) / number,
        output=sum(output for _, output in requests) / number,
        prompt_sq=sum(prompt**2 for prompt, _ in requests) / number,
        output_sq=sum(output**2 for _, output in requests) / number,
        prompt_x_output=sum(prompt * output for prompt, output in requests) / number,
    )
    # To half a token: a step's own token counts for half.
    assert shape.context == pytest.approx(sum(held) / len(held) + 0.5)


def test_requests_without_answers_hold_their_prompts() -> None:
    assert RequestShape.of_means(300.0, 0.0).context == 300.0
