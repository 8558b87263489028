"""Merging rows: weighted sums over any number of terms, accumulated in fp32."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgevlm.pruners.merging import Merger
from edgevlm.pruners.selection import MergeWeights


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 12), st.integers(0, 20), st.integers(0, 10**6))
def test_rows_become_sums_of_their_terms(stay, terms, seed) -> None:
    generator = torch.Generator().manual_seed(seed)
    whole = torch.randn(20, 6, generator=generator)
    rows = torch.randperm(20, generator=generator)[:stay].sort().values
    merge = MergeWeights(
        rows[torch.randint(stay, (terms,), generator=generator)],
        torch.randint(20, (terms,), generator=generator),
        torch.randn(terms, generator=generator),
    )
    expected = whole[rows]
    for place, row in enumerate(rows.tolist()):
        mine = merge.rows == row
        if mine.any():
            expected[place] = (merge.weights[mine, None] * whole[merge.sources[mine]]).sum(dim=0)
    found = whole[rows]
    Merger(merge, rows).write(found, whole)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_accumulates_in_fp32(dtype: torch.dtype) -> None:
    # 2048 + 1 + 1 + ... stays 2048 in fp16, and sooner in bf16, if summed in that precision.
    whole = torch.ones(513, 4, dtype=dtype)
    whole[0] = 2048
    terms = torch.arange(513)
    merge = MergeWeights(torch.zeros(513, dtype=torch.int64), terms, torch.ones(513))
    found = whole[:1].clone()
    Merger(merge, torch.tensor([0])).write(found, whole)
    assert found.tolist() == [[2560.0] * 4]
