"""The gather kernel against indexing."""

from __future__ import annotations

import pytest
import torch

from edgevlm.pruners.compaction import compact
from edgevlm.pruners.kernels.gather import gather

from .prompts import LAYOUTS, Prompt, prompt


def some(made: Prompt) -> torch.Tensor:
    """Rows that the layout of ``made`` allows to be kept."""
    generator = torch.Generator().manual_seed(len(made.io))
    picks = [
        place.start + torch.randperm(place.length, generator=generator)[: place.kept].sort().values
        for place in made.layout.places
    ]
    return torch.cat(picks)


@pytest.mark.parametrize("layout", LAYOUTS[:3])
@pytest.mark.parametrize(
    ("planes", "hidden", "importance", "dtype"),
    [
        (0, 8, False, torch.float32),
        (1, 24, True, torch.float16),
        (3, 5, True, torch.bfloat16),
    ],
)
def test_gather(layout, planes, hidden, importance, dtype) -> None:
    made = prompt(*layout, planes=planes, hidden=hidden, importance=importance, dtype=dtype)
    kept = some(made)
    found = gather(made.io, kept, made.layout, made.table, None)
    expected = compact(made.io, kept, made.layout)
    for name in ("token_ids", "embeds", "deepstack", "positions"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    assert found.spans == expected.spans
    assert found.next_position == expected.next_position
    assert (found.importance is not None) == importance
    assert not importance or torch.equal(found.importance, expected.importance)


def test_inputs_need_not_be_contiguous() -> None:
    made = prompt(40, [(3, 36)], planes=2)
    views = {
        "embeds": made.io.embeds.T.contiguous().T,
        "positions": made.io.positions.T.contiguous().T,
        "deepstack": made.io.deepstack.mT.contiguous().mT,
    }
    other = Prompt(type(made.io)(**{**vars(made.io), **views}))
    found = gather(other.io, some(made), made.layout, made.table, None)
    expected = compact(made.io, some(made), made.layout)
    for name in views:
        assert torch.equal(getattr(found, name), getattr(expected, name)), name


def test_rows_that_are_no_numbers_become_zeros() -> None:
    made = prompt(12, [(2, 10)])
    norms = made.l2.clone()
    norms[[1, 4]] = torch.tensor([torch.nan, torch.inf])
    kept = torch.tensor([2, 4, 6, 9])
    found = gather(made.io, kept, made.layout, made.table, norms)
    expected = compact(made.io, kept, made.layout)
    sound = [0, 2, 4, 5, 6, 7]
    for x, y in ((found.embeds, expected.embeds), (found.deepstack, expected.deepstack)):
        assert not x[..., [1, 3], :].any()
        assert torch.equal(x[..., sound, :], y[..., sound, :])
    assert torch.equal(found.token_ids, expected.token_ids)
