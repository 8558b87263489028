"""The stride baseline."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgevlm.pruners.stride import StridePruner, evenly_spaced

from .helpers import make_io
from .selecting import kept_by


def spaced(tokens: int, count: int) -> torch.Tensor:
    return evenly_spaced(tokens, count, torch.device("cpu"))


def test_middles_of_equal_intervals() -> None:
    assert spaced(16, 4).tolist() == [2, 6, 10, 14]
    assert spaced(10, 3).tolist() == [1, 5, 8]
    assert spaced(5, 5).tolist() == [0, 1, 2, 3, 4]
    assert spaced(1, 1).tolist() == [0]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(1, 3000), st.data())
def test_distances_differ_by_one_at_most(tokens, data) -> None:
    count = data.draw(st.integers(1, tokens))
    places = spaced(tokens, count)
    assert places[0] >= 0 and places[-1] < tokens
    assert set(places.diff().tolist()) <= {tokens // count, -(-tokens // count)}
    assert abs(int(places[0]) - (tokens - 1 - int(places[-1]))) <= 1  # as far from both ends


def test_each_span_is_sampled_by_itself() -> None:
    assert kept_by(StridePruner, make_io(20, [(2, 10), (12, 18)]), 0.5) == [3, 5, 7, 9, 13, 15, 17]
