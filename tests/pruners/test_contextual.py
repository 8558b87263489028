"""Merging leftovers into contextual tokens."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgevlm.pruners.contextual import contextual

from . import algorithms_reference as reference
from .selecting import signed_units

LEFT = [0, 2, 4, 6, 7, 8, 9]  # what the golden vector's dominant tokens 1, 3, 5 leave
RULES = ("mean", "sum")


def golden_keys() -> torch.Tensor:
    i, j = torch.arange(10)[:, None], torch.arange(3)
    return ((2 * i + 5 * j + 2 * i * j + 1) % 7 - 3).float()  # [10,3], row 8 is zero


def merged(features: torch.Tensor, target: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """What each target becomes: ``[c,D]``, in the order of the targets."""
    rows = torch.zeros_like(features).index_add_(0, target, weight[:, None] * features)
    return rows[target.unique()]


@pytest.mark.parametrize(
    ("nudge", "joined", "rule", "expected"),
    [
        (0.01, [0, 6, 6, 6, 0, 0, 6], "sum", [[-5, -0.5], [20 / 3, -2]]),
        (0.01, [0, 6, 6, 6, 0, 0, 6], "mean", [[-2, 0], [2.5, -0.5]]),
        (0.0, [0, 6, 0, 6, 0, 0, 6], "sum", [[-4, 0], [6.5, -3]]),
        (0.0, [0, 6, 0, 6, 0, 0, 6], "mean", [[-1, 0.5], [8 / 3, -4 / 3]]),
    ],
)
def test_golden_vector(nudge, joined, rule, expected) -> None:
    # Key 4 is exactly as like key 0 as key 6 (cosine -1/2): a tie, which the nudge breaks.
    keys = golden_keys()
    keys[4] += nudge * keys[6]
    _, target, weight = contextual(keys[LEFT], 2, rule)
    assert [LEFT[place] for place in target] == joined
    features = torch.from_numpy(reference.golden_rows(10, 2)).float()[LEFT]
    assert torch.allclose(merged(features, target, weight), torch.tensor(expected))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(1, 24), st.integers(0, 10**6), st.sampled_from(RULES), st.data())
def test_agrees_with_the_reference(tokens, seed, rule, data) -> None:
    count = data.draw(st.integers(1, tokens))
    rows = torch.randn(tokens, 5, generator=torch.Generator().manual_seed(seed))
    targets, target, weight = contextual(rows, count, rule)
    members = reference.contextual(rows.numpy(), count)
    assert targets.tolist() == list(members)
    assert {t: [p for p in range(tokens) if target[p] == t] for t in members} == {
        t: sorted(joined) for t, joined in members.items()
    }
    expected = []
    for first, *others in members.values():
        joined = rows[others].mean(0) if others else torch.zeros(5)
        total = rows[first] + (joined if rule == "sum" else joined * len(others))
        expected.append(total if rule == "sum" else total / (1 + len(others)))
    assert torch.allclose(merged(rows, target, weight), torch.stack(expected), atol=1e-5)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=16), st.data())
def test_ties_go_to_the_first_target(draws, data) -> None:
    rows, count = signed_units(draws), data.draw(st.integers(1, len(draws)))
    _, target, _ = contextual(rows, count, "mean")
    for first, joined in reference.contextual(rows.numpy(), count).items():
        assert target[joined].tolist() == [first] * len(joined)


@pytest.mark.parametrize("rule", RULES)
def test_all_leftovers_as_targets_stay_what_they_are(rule: str) -> None:
    targets, target, weight = contextual(torch.ones(5, 2), 5, rule)
    assert targets.tolist() == target.tolist() == [0, 1, 2, 3, 4]
    assert weight.tolist() == [1.0] * 5
