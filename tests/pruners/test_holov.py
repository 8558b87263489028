"""HoloV's region quotas and selection."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgevlm.core import UsageError
from edgevlm.pruners.holov import HoloVPruner, region_scores

from . import algorithms_reference as reference
from .helpers import make_io
from .selecting import kept_by, one_image

reproducible = settings(max_examples=80, deadline=None, derandomize=True)


@reproducible
@given(
    st.integers(1, 40),
    st.integers(1, 20),
    st.sampled_from([0.0, 0.09, 3.0]),
    st.sampled_from([0.1, 0.5, 0.8]),
    st.integers(0, 10**6),
)
def test_agrees_with_the_reference(tokens, chunks, beta, ratio, seed) -> None:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(tokens, 6, generator=generator)
    importance = torch.rand(tokens, generator=generator) ** 4
    count = max(1, -(-tokens * round(10 - 10 * ratio) // 10))
    expected = reference.holov(rows.numpy(), importance.tolist(), count, chunks, beta)
    kept = kept_by(HoloVPruner, one_image(rows, importance), ratio, chunks=chunks, beta=beta)
    assert kept == sorted(2 + place for place in expected)


def test_scores_by_hand() -> None:
    # Variances: a region of equal rows has mean 1, so only the zero for itself deviates: 1 / 1.
    # One of orthogonal rows has 0, and so has a region of one row.
    rows = torch.tensor([[1.0, 0], [1, 0], [1, 0], [0, 1], [1, 1]])
    attention = torch.tensor([2.0, 2, 1, 1, 4])
    scores = region_scores(rows, attention, [2, 2, 1], 0.5)
    # Mean attention 2, mean variance 0.4: variances count five times.
    assert torch.allclose(scores, torch.tensor([2 + 0.5 * 5, 1.0, 4.0]), rtol=1e-5)


def test_the_surplus_of_a_full_region_is_not_lost() -> None:
    # Nearly all weight is on the first region of four tokens; twelve of sixteen are to stay.
    importance = torch.tensor([100.0] * 4 + [3.0] * 4 + [2.0] * 4 + [1.0] * 4)
    io = one_image(torch.ones(16, 3), importance)
    kept = kept_by(HoloVPruner, io, 0.25, chunks=4, beta=0)
    counts = [sum(2 + start <= row < 6 + start for row in kept) for start in (0, 4, 8, 12)]
    assert counts == [4, 4, 3, 1]


def test_without_attention_regions_are_equal() -> None:
    io = one_image(torch.randn(32, 4, generator=torch.Generator().manual_seed(0)), torch.zeros(32))
    assert kept_by(HoloVPruner, io, 0.5, chunks=4) == [
        2 + start + place for start in (0, 8, 16, 24) for place in range(4)
    ]


def test_equal_attention_goes_by_position() -> None:
    io = one_image(torch.ones(12, 4), torch.ones(12))
    assert kept_by(HoloVPruner, io, 0.5, chunks=2) == [2, 3, 4, 8, 9, 10]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"chunks": 0}, "chunks must be 1 or more, got 0"), ({"beta": -1}, "beta must be 0 or more")],
)
def test_illegal_options(options, message) -> None:
    with pytest.raises(UsageError, match=message):
        kept_by(HoloVPruner, make_io(20, [(2, 18)]), **options)
