"""Fewer experts per token."""

from __future__ import annotations

import pytest
import torch

from edgevlm.core import UsageError
from edgevlm.plugins.experts.truncation import TruncationConfig, distinct_experts, first_slots


def test_first_slots_keep_the_sum_of_weights() -> None:
    ids = torch.tensor([[3, 0, 2], [1, 3, 0]])
    weights = torch.tensor([[0.5, 0.3, 0.2], [0.6, 0.2, 0.2]])
    kept, scaled = first_slots(ids, weights, 2, 4)
    assert kept.tolist() == [[3, 0, 4], [1, 3, 4]]
    torch.testing.assert_close(scaled, torch.tensor([[0.625, 0.375, 0.0], [0.75, 0.25, 0.0]]))
    whole, same = first_slots(ids, weights, 3, 4)
    assert torch.equal(whole, ids)
    torch.testing.assert_close(same, weights)


def test_distinct_experts_of_the_rows_that_count() -> None:
    ids = torch.tensor([[3, 0, 4], [1, 3, 4], [2, 2, 4]])
    assert int(distinct_experts(ids, torch.tensor([True, True, False]), 4)) == 3
    assert int(distinct_experts(ids, torch.tensor([False] * 3), 4)) == 0


@pytest.mark.parametrize("values", [{"top_k": 0}, {"top_k": True}, {"top_k": 1, "prompts": 1}])
def test_bad_settings_are_named(values: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="truncation: "):
        TruncationConfig(**values)  # type: ignore[arg-type]
