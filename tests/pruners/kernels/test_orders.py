"""The order kernel against a stable sort."""

from __future__ import annotations

import pytest
import torch

from edgevlm.pruners.kernels.orders import pivot_orders

from .prompts import LAYOUTS, Prompt, prompt


def assert_orders(made: Prompt, cosines: torch.Tensor, image: int, text: int) -> None:
    found = pivot_orders(cosines, made.table, made.layout, image, text)
    column = 0
    for span, quota in zip(made.io.spans, made.layout.counts, strict=True):
        turns = min(image, quota) + min(text, made.layout.text_tokens)
        block = slice(column, column + len(span))
        expected = cosines[:turns, block].sort(stable=True).indices
        assert torch.equal(found[:turns, block].long(), expected)
        column += len(span)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("image", "text"), [(3, 2), (0, 1), (2, 0)])
def test_ascending_cosines(layout, image, text) -> None:
    made = prompt(*layout, hidden=1, planes=0)
    assert_orders(made, torch.randn(image + text, made.layout.visual_tokens), image, text)


@pytest.mark.parametrize("values", [1, 2, 5])
def test_ties_go_to_the_lower_token_across_blocks(values: int) -> None:
    made = prompt(620, [(2, 603), (610, 620)], hidden=1, planes=0)
    generator = torch.Generator().manual_seed(values)
    cosines = torch.randint(values, (2, made.layout.visual_tokens), generator=generator).float()
    cosines[1] *= -0.0  # negative zeros equal zeros
    assert_orders(made, cosines, 1, 1)
