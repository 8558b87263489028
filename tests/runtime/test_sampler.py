"""Sampling respects its limits, repeats under a seed, and ignores neighbours in the batch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from edgevlm.runtime.request import SamplingParams
from edgevlm.runtime.sampler import TokenSampler, sample

NOTHING = torch.tensor([], dtype=torch.int64)


def sampler(**params: float | int | None) -> TokenSampler:
    return TokenSampler(SamplingParams(**params))  # type: ignore[arg-type]


def draw(logits: Tensor, count: int, **params: float | int | None) -> list[int | None]:
    state = sampler(seed=1, **params)
    return [sample(logits[None], [state], NOTHING)[0] for _ in range(count)]


@pytest.mark.parametrize("params", [{"temperature": 0.0}, {"top_k": 1}, {"top_p": 0.0}])
def test_greedy_takes_the_largest_and_the_first_of_equals(params: dict[str, float]) -> None:
    assert set(draw(torch.tensor([0.0, 3.0, 3.0, 1.0]), 20, **params)) == {1}


def test_frequencies_follow_the_softmax() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0])
    tokens = torch.tensor(draw(logits, 4000, temperature=1.0))
    frequencies = torch.bincount(tokens, minlength=4) / 4000
    torch.testing.assert_close(frequencies, logits.softmax(0), atol=0.03, rtol=0)


def test_temperature_flattens() -> None:
    logits = torch.tensor([2.0, 0.0])
    hot = draw(logits, 2000, temperature=10.0)
    assert 0.4 < hot.count(1) / 2000 < 0.5


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=12), st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_top_k_never_leaves_the_k_best(values: list[float], k: int) -> None:
    logits = torch.tensor(values)
    allowed = set(logits.sort(descending=True, stable=True).indices[:k].tolist())
    assert set(draw(logits, 10, top_k=k)) <= allowed


def test_top_p_keeps_the_smallest_set_that_reaches_p() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    assert set(draw(logits, 300, top_p=0.49)) == {0}
    assert set(draw(logits, 300, top_p=0.51)) == {0, 1}
    assert set(draw(logits, 300, top_p=0.81)) == {0, 1, 2}


def test_a_seeded_request_does_not_depend_on_its_neighbours() -> None:
    logits = torch.randn(4, 50, generator=torch.Generator().manual_seed(0))
    alone, together = sampler(seed=7), sampler(seed=7)
    others = [sampler(temperature=0.0), sampler(seed=8, top_k=3), sampler(temperature=2.0)]
    for step in range(10):
        rows = logits + step
        expected = sample(rows[2:3], [alone], NOTHING)[0]
        batch = [others[0], others[1], together, others[2]]
        assert sample(rows, batch, NOTHING)[2] == expected


def test_different_seeds_differ_and_equal_seeds_repeat() -> None:
    logits = torch.zeros(1000)
    first, again = (draw(logits, 8, temperature=1.0) for _ in range(2))
    assert first == again
    assert sample(logits[None], [sampler(seed=2)], NOTHING) != [first[0]]


def test_forbidden_ids_are_never_chosen() -> None:
    logits = torch.tensor([[9.0, 8.0, 0.0]])
    forbidden = torch.tensor([0, 1])
    assert sample(logits, [sampler(temperature=0.0)], forbidden) == [2]
    assert {sample(logits, [sampler()], forbidden)[0] for _ in range(50)} == {2}


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_broken_rows_are_reported_and_others_go_on(bad: float) -> None:
    logits = torch.tensor([[0.0, 1.0], [bad, 0.0]])
    assert sample(logits, [sampler(temperature=0.0)] * 2, NOTHING) == [1, None]
    assert sample(logits, [sampler(), sampler()], NOTHING)[1] is None
