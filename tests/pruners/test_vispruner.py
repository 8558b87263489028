"""VisPruner's selection."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgevlm.core import UsageError
from edgevlm.pruners import vispruner
from edgevlm.pruners.vispruner import VisPruner, important_and_diverse

from . import algorithms_reference as reference
from .helpers import make_io
from .selecting import kept_by, signed_units

reproducible = settings(max_examples=80, deadline=None, derandomize=True)


def select(rows: torch.Tensor, importance: list[float], *budget: int) -> list[int]:
    return important_and_diverse(rows, torch.tensor(importance), *budget).tolist()


def test_golden_vector() -> None:
    rows = torch.from_numpy(reference.golden_rows(10, 4))
    assert sorted(select(rows, reference.SCORES, 4, 2, 2)) == [0, 1, 3, 6]


@reproducible
@given(st.integers(1, 24), st.integers(1, 8), st.integers(0, 10**6), st.data())
def test_agrees_with_the_reference(tokens, step, seed, data) -> None:
    count = data.draw(st.integers(1, tokens))
    important = data.draw(st.integers(0, count))
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(tokens, 6, generator=generator)
    importance = torch.rand(tokens, generator=generator).tolist()
    expected = reference.vispruner(rows.numpy(), importance, count, important, step)
    assert select(rows, importance, count, important, step) == expected


@reproducible
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=20), st.integers(1, 4), st.data())
def test_ties(draws, step, data) -> None:
    rows, count = signed_units(draws), data.draw(st.integers(1, len(draws)))
    important = data.draw(st.integers(0, count))
    levels = st.sampled_from([0.0, 1.0, 2.0])
    importance = data.draw(st.lists(levels, min_size=len(draws), max_size=len(draws)))
    expected = reference.vispruner(rows.numpy(), importance, count, important, step)
    assert select(rows, importance, count, important, step) == expected


def test_of_equals_the_less_attended_goes() -> None:
    # Hands 2, 4 | 3, 5: row 4 goes. Then 2, 5 | 3: row 5 goes.
    assert select(torch.ones(6, 2), [6.0, 5, 4, 3, 2, 1], 4, 2, 1) == [0, 1, 2, 3]


def test_options_reach_the_algorithm() -> None:
    io = make_io(42, [(1, 41)], importance=True)
    by_attention = io.importance[1:41].argsort(descending=True)
    kept = kept_by(VisPruner, io, importance_ratio=1)
    assert kept == sorted((by_attention[:20] + 1).tolist())
    for ratio, step in ((0.5, 8), (0.25, 3), (0, 1)):
        rows = important_and_diverse(
            io.embeds[1:41], io.importance[1:41], 20, int(20 * ratio), step
        )
        kept = kept_by(VisPruner, io, importance_ratio=ratio, step=step)
        assert kept == sorted((rows + 1).tolist())
    assert kept_by(VisPruner, io) == kept_by(VisPruner, io, importance_ratio=0.5, step=8)


def test_a_share_meant_to_be_whole_is_not_rounded_down() -> None:
    # 0.29 * 100 is below 29 in floating point.
    io = make_io(202, [(1, 201)], importance=True)
    rows = important_and_diverse(io.embeds[1:201], io.importance[1:201], 100, 29, 8)
    fewer = important_and_diverse(io.embeds[1:201], io.importance[1:201], 100, 28, 8)
    kept = kept_by(VisPruner, io, importance_ratio=0.29)
    assert kept == sorted((rows + 1).tolist())
    assert kept != sorted((fewer + 1).tolist())


def test_a_long_span_is_thinned_in_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    io = make_io(42, [(1, 41)], importance=True)
    monkeypatch.setattr(vispruner, "_LONGEST", 10)
    kept = kept_by(VisPruner, io)
    assert [sum(start <= row < start + 10 for row in kept) for start in (1, 11, 21, 31)] == [5] * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"importance_ratio": 1.5}, "importance_ratio must be 0 to 1, got 1.5"),
        ({"importance_ratio": -1}, "importance_ratio must be 0 to 1"),
        ({"step": 0}, "step must be 1 or more, got 0"),
    ],
)
def test_illegal_options(options, message) -> None:
    with pytest.raises(UsageError, match=message):
        kept_by(VisPruner, make_io(20, [(2, 18)]), **options)
