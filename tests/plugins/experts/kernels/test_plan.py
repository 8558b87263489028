"""Grouping slots by expert."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from edgevlm.plugins.experts.kernels.plan import make_plan, most_tiles


def check(ids: Tensor, experts: int, rows: int) -> None:
    """Every slot is in one tile of its expert, in ascending order; unused tiles are the last."""
    plan = make_plan(ids, experts, rows)
    order, flat = plan.order.tolist(), ids.flatten().tolist()
    used = [tuple(tile) for tile in plan.tiles.tolist() if tile[1] < tile[2]]
    assert all(begin == end == 0 for _, begin, end in plan.tiles[len(used) :].tolist())
    seen = []
    for expert, begin, end in used:
        assert end - begin <= rows
        assert {flat[slot] for slot in order[begin:end]} == {expert}
        seen += order[begin:end]
    assert seen == sorted(
        (slot for slot, chosen in enumerate(flat) if 0 <= chosen < experts),
        key=lambda slot: (flat[slot], slot),
    )
    # Full tiles but the last of each expert: the weights are read no more often than they must be.
    assert len(used) == sum(-(-flat.count(expert) // rows) for expert in range(experts))


@settings(max_examples=15, deadline=None)
@given(
    experts=st.integers(1, 24),
    rows=st.sampled_from([1, 2, 16]),
    shape=st.tuples(st.integers(1, 12), st.integers(1, 8)),
    seed=st.integers(0, 1000),
    narrow=st.booleans(),
)
def test_any_routing(
    experts: int, rows: int, shape: tuple[int, int], seed: int, narrow: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(experts + 1, shape, generator=generator)
    check(ids.int() if narrow else ids, experts, rows)


@pytest.mark.parametrize("rows", [16, 64])
def test_more_slots_than_one_chunk(rows: int) -> None:
    ids = torch.randint(8, (1100, 4), generator=torch.Generator().manual_seed(0))
    check(ids.clamp(max=6), 7, rows)


def test_all_rows_on_one_expert_and_on_none() -> None:
    check(torch.full((40, 1), 3), 5, 16)
    check(torch.full((40, 2), 5), 5, 16)
    check(torch.tensor([[-1, 2]]), 5, 16)


def test_the_bound_on_tiles_is_reached_and_never_passed() -> None:
    assert most_tiles(8, 128, 16) == 8
    # One slot on each of three experts, the other 33 on the fourth: 1 + 1 + 1 + 3 tiles.
    assert most_tiles(36, 4, 16) == 6
    check(torch.tensor([0, 1, 2, *[3] * 33])[:, None], 4, 16)
