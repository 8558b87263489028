"""DivPrune's selection."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgevlm.pruners.divprune import DivPruner, farthest

from . import algorithms_reference as reference
from .helpers import make_io
from .selecting import kept_by, signed_units

reproducible = settings(max_examples=80, deadline=None, derandomize=True)


def test_golden_vector() -> None:
    rows = torch.from_numpy(reference.golden_rows(10, 4))
    assert farthest(rows, 4).tolist() == [2, 9, 3, 5]


@reproducible
@given(st.integers(1, 20), st.data())
def test_agrees_with_the_reference(tokens, data) -> None:
    count = data.draw(st.integers(1, tokens))
    seed = data.draw(st.integers(0, 10**6))
    rows = torch.randn(tokens, 6, generator=torch.Generator().manual_seed(seed))
    assert farthest(rows, count).tolist() == reference.divprune(rows.numpy(), count)


@reproducible
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=20), st.data())
def test_ties_go_to_the_lower_position(draws, data) -> None:
    rows, count = signed_units(draws), data.draw(st.integers(1, len(draws)))
    assert farthest(rows, count).tolist() == reference.divprune(rows.numpy(), count)


def test_blocks_see_neighbours_in_other_blocks() -> None:
    # Rows on an arc of 1 radian, one in the second block at 3: it alone has no near neighbour.
    angle = torch.linspace(0, 1, 2000)
    angle[1500] = 3
    rows = torch.stack((angle.cos(), angle.sin()), dim=1)
    assert farthest(rows, 2).tolist() == [1500, 0]


def test_spans_are_judged_alone_and_importance_is_ignored() -> None:
    io = make_io(40, [(2, 18), (20, 36)], importance=True)
    other = io.embeds.clone()
    other[20:36] = other[20:36].flip(0)
    changed = make_io(40, [(2, 18), (20, 36)], embeds=other)
    assert [row for row in kept_by(DivPruner, io) if row < 18] == [
        row for row in kept_by(DivPruner, changed) if row < 18
    ]
