"""Sharing budgets out."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgevlm.pruners.budget import apportion, even_sizes, rank_in_group

from . import algorithms_reference as reference

reproducible = settings(max_examples=200, deadline=None, derandomize=True)
parts = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), min_size=1, max_size=8)


@reproducible
@given(parts, st.data())
def test_apportion_is_exact_and_agrees_with_the_reference(drawn, data) -> None:
    weights, sizes = zip(*drawn, strict=True)
    total = data.draw(st.integers(0, sum(sizes)))
    shares = apportion(total, weights, sizes)
    assert sum(shares) == total
    assert all(0 <= share <= size for share, size in zip(shares, sizes, strict=True))
    assert shares == reference.share_out(total, weights, sizes)


def test_apportion_by_hand() -> None:
    assert apportion(7, [1, 1, 2], [9, 9, 9]) == [2, 1, 4]
    assert apportion(7, [1, 1, 2], [9, 9, 1]) == [3, 3, 1]
    assert apportion(4, [0, 0, 0], [9, 9, 9]) == [2, 1, 1]
    assert apportion(5, [1, 0, 0], [2, 2, 2]) == [2, 2, 1]


def test_apportion_forgives_the_rounding_of_weights() -> None:
    weights = torch.tensor([0.1, 0.2, 0.3]).tolist()  # shares 1, 2, 3 up to fp32
    assert apportion(6, weights, [9, 9, 9]) == [1, 2, 3]


def test_even_sizes() -> None:
    assert even_sizes(10, 4) == [3, 3, 2, 2]
    assert even_sizes(4, 4) == [1, 1, 1, 1]


@reproducible
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=30))
def test_rank_in_group(drawn) -> None:
    drawn.sort(key=lambda pair: pair[0])
    groups, scores = zip(*drawn, strict=True)
    ranks = rank_in_group(torch.tensor(scores), torch.tensor(groups)).tolist()
    for group in set(groups):
        places = [place for place, other in enumerate(groups) if other == group]
        order = reference.strongest(scores, places)
        assert [ranks[place] for place in order] == list(range(len(places)))
