"""The random baseline."""

from __future__ import annotations

import pytest

from edgevlm.core import UsageError
from edgevlm.pruners.random_pruner import RandomPruner

from .helpers import make_io
from .selecting import kept_by


def test_same_seed_same_tokens_whatever_they_show() -> None:
    spans = [(2, 30), (31, 60)]
    first = kept_by(RandomPruner, make_io(64, spans, seed=1))
    assert kept_by(RandomPruner, make_io(64, spans, seed=2)) == first
    assert kept_by(RandomPruner, make_io(64, spans), seed=0) == first
    assert kept_by(RandomPruner, make_io(64, spans), seed=1) != first


def test_spans_are_drawn_apart() -> None:
    kept = kept_by(RandomPruner, make_io(64, [(0, 30), (30, 60)]))
    assert [row for row in kept if row < 30] != [row - 30 for row in kept if row >= 30]


def test_every_place_is_as_likely() -> None:
    io = make_io(22, [(1, 21)])
    counts = [0] * 22
    for seed in range(400):
        for row in kept_by(RandomPruner, io, 0.5, seed=seed):
            counts[row] += 1
    assert counts[0] == counts[21] == 0
    assert all(150 < count < 250 for count in counts[1:21])  # 200 expected, 10 is one sigma


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_illegal_seed(seed) -> None:
    with pytest.raises(UsageError, match="seed must be 0 to 9223372036854775807"):
        kept_by(RandomPruner, make_io(20, [(2, 18)]), seed=seed)
