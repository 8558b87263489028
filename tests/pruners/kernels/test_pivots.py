"""The pivot kernel against a stable sort."""

from __future__ import annotations

import pytest
import torch

from edgevlm.pruners.kernels.pivots import find_pivots

from .prompts import LAYOUTS, Prompt, prompt


def assert_pivots(made: Prompt, l1: torch.Tensor, image: int, text: int) -> None:
    found = find_pivots(l1, made.table, made.layout, image, text)
    visual = {row for span in made.io.spans for row in range(span.start, span.end)}
    groups = [
        (range(span.start, span.end), min(image, quota))
        for span, quota in zip(made.io.spans, made.layout.counts, strict=True)
    ]
    groups.append(([row for row in range(len(made.io)) if row not in visual], text))
    for rows, pivots in zip(groups, found.tolist(), strict=True):
        members, limit = rows
        expected = sorted(members, key=lambda row: (-l1[row].item(), row))[:limit]
        assert pivots[: len(expected)] == expected


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("image", "text"), [(4, 4), (0, 3), (2, 0), (40, 24)])
def test_largest_norms_first(layout, image, text) -> None:
    made = prompt(*layout)
    assert_pivots(made, made.l1, image, text)


@pytest.mark.parametrize("values", [1, 3])
def test_ties_go_to_the_lower_row_across_blocks(values: int) -> None:
    made = prompt(700, [(5, 350), (360, 400)], hidden=1, planes=0)
    l1 = torch.randint(values, (700,), generator=torch.Generator().manual_seed(values)).float()
    assert_pivots(made, l1, 20, 20)
