"""SCOPE's selection."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgevlm.core import RequestError, UsageError
from edgevlm.pruners import scope
from edgevlm.pruners.scope import ScopePruner, cover

from . import algorithms_reference as reference
from .helpers import make_io
from .selecting import kept_by, one_image, signed_units

reproducible = settings(max_examples=60, deadline=None, derandomize=True)


def test_golden_vector() -> None:
    rows = torch.from_numpy(reference.golden_rows(10, 4))
    assert cover(rows, torch.tensor(reference.SCORES), 4).tolist() == [1, 3, 5, 9]


@reproducible
@given(
    st.integers(1, 16),
    st.sampled_from([0.5, 1.0, 2.0]),
    st.booleans(),
    st.integers(0, 10**6),
    st.data(),
)
def test_agrees_with_the_reference(tokens, alpha, add, seed, data) -> None:
    count = data.draw(st.integers(1, tokens))
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(tokens, 6, generator=generator)
    importance = torch.rand(tokens, generator=generator) + 0.1
    expected = reference.scope(rows.numpy(), importance.tolist(), count, alpha, add)
    assert cover(rows, importance**alpha, count, add=add).tolist() == expected


@reproducible
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=16), st.booleans(), st.data())
def test_ties_go_to_the_lower_position(draws, add, data) -> None:
    rows, count = signed_units(draws), data.draw(st.integers(1, len(draws)))
    importance = data.draw(
        st.lists(st.sampled_from([0, 1, 2]), min_size=len(draws), max_size=len(draws))
    )
    expected = reference.scope(rows.numpy(), importance, count, 1.0, add)
    picked = cover(rows, torch.tensor(importance, dtype=torch.float32), count, add=add)
    assert picked.tolist() == expected


def test_options_reach_the_algorithm() -> None:
    # Rows 0 and 1 stand for three tokens and one; row 1 is the more important by far.
    embeds = torch.tensor([[1.0, 0], [0, 1], [1, 0], [1, 0]])
    io = one_image(embeds, [1, 9, 1, 1])
    assert kept_by(ScopePruner, io, 0.75) == [3]
    assert kept_by(ScopePruner, io, 0.75, alpha=0.25) == [2]
    assert kept_by(ScopePruner, io, 0.75, alpha=0) == [2]
    assert kept_by(ScopePruner, io, 0.75, alpha=0.25, combine="add") == [2]
    assert kept_by(ScopePruner, io, 0.75, combine="add") == [3]


def test_importance_is_needed_unless_alpha_is_0() -> None:
    io = make_io(20, [(2, 18)])
    assert len(kept_by(ScopePruner, io, alpha=0)) == 8
    with pytest.raises(RequestError, match="edgevlm build --importance-layer -1, or choose"):
        kept_by(ScopePruner, io)


def test_a_long_span_is_covered_in_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    io = make_io(42, [(1, 41)], importance=True)
    whole = kept_by(ScopePruner, io)
    monkeypatch.setattr(scope, "_LONGEST", 10)
    kept = kept_by(ScopePruner, io)
    assert [sum(start <= row < start + 10 for row in kept) for start in (1, 11, 21, 31)] == [5] * 4
    assert kept != whole


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": -0.1}, "alpha must be 0 to 4"),
        ({"alpha": 5}, "alpha must be 0 to 4"),
        ({"combine": "max"}, "combine must be one of multiply, add, got 'max'"),
    ],
)
def test_illegal_options(options, message) -> None:
    with pytest.raises(UsageError, match=message):
        kept_by(ScopePruner, make_io(20, [(2, 18)]), **options)
