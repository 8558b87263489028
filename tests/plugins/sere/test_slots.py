"""Order and repeats of a row's slots."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgevlm.plugins.sere import merge_duplicates, sort_slots


def test_strongest_first_and_equals_as_they_came() -> None:
    ids, weights = sort_slots(torch.tensor([[4, 1, 2]]), torch.tensor([[0.25, 0.5, 0.25]]))
    assert ids.tolist() == [[1, 4, 2]]
    assert weights.tolist() == [[0.5, 0.25, 0.25]]


def test_the_first_slot_gets_the_sum_and_others_are_dropped() -> None:
    ids, weights = merge_duplicates(
        torch.tensor([[3, 1, 3, 3], [0, 5, 5, 2]]),
        torch.tensor([[0.5, 0.25, 0.125, 0.125], [0.5, 0.0, 0.0, 0.5]]),
        experts=5,
    )
    assert ids.tolist() == [[3, 1, 5, 5], [0, 5, 5, 2]]
    assert weights.tolist() == [[0.75, 0.25, 0, 0], [0.5, 0, 0, 0.5]]


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**31), st.sampled_from([torch.float32, torch.float16, torch.bfloat16]))
def test_each_expert_keeps_its_weight(seed: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 6, (4, 5), generator=generator)
    weights = torch.randint(0, 8, (4, 5), generator=generator).to(dtype) / 8
    weights[ids == 5] = 0
    merged, sums = merge_duplicates(ids, weights, experts=5)
    assert sums.dtype == dtype
    mass, merged_mass = (
        torch.zeros(4, 6).scatter_add_(1, i, w.float()) for i, w in ((ids, weights), (merged, sums))
    )
    assert torch.equal(mass, merged_mass)
    for row in merged.tolist():
        named = [expert for expert in row if expert != 5]
        assert len(named) == len(set(named))
