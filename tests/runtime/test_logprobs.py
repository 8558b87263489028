"""Log probabilities: of the model's own distribution, for the rows that want them."""

from __future__ import annotations

import math

import pytest
import torch

from edgevlm.core import RequestError
from edgevlm.runtime.logprobs import token_logprobs
from edgevlm.runtime.request import SamplingParams


def test_rows_get_what_they_ask_for() -> None:
    logits = torch.tensor([[0.0, math.log(3.0), 0.0], [1.0, 2.0, 3.0], [5.0, 5.0, 5.0]])  # [3,V]
    first, second, third = token_logprobs(logits, [1, 0, None], [2, None, 5])
    assert second is None and third is None
    assert first is not None and first.token_id == 1
    assert first.logprob == pytest.approx(math.log(0.6))
    assert first.top[0][0] == 1
    assert [value for _, value in first.top] == pytest.approx([math.log(0.6), math.log(0.2)])


def test_more_alternatives_than_tokens_and_none_at_all() -> None:
    logits = torch.zeros(1, 3)
    (many,), (none,) = token_logprobs(logits, [0], [20]), token_logprobs(logits, [0], [0])
    assert many is not None and len(many.top) == 3
    assert none is not None and none.top == ()


@pytest.mark.parametrize("count", [-1, 21, True, 1.5])
def test_a_wrong_count_is_refused(count: object) -> None:
    with pytest.raises(RequestError, match=r"logprobs must be 0\.\.20"):
        SamplingParams(logprobs=count)  # type: ignore[arg-type]
