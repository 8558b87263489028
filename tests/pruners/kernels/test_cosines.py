"""The cosine kernel against the formula in fp64.

fp16 and fp32 only: Triton's interpreter cannot multiply bf16 matrices. On a GPU the benchmark
checks that, too.
"""

from __future__ import annotations

import pytest
import torch

from edgevlm.pruners.kernels.cosines import pivot_cosines
from edgevlm.pruners.kernels.pivots import find_pivots

from .prompts import LAYOUTS, Prompt, prompt


def cosines(made: Prompt, image: int, text: int) -> tuple[torch.Tensor, torch.Tensor]:
    pivots = find_pivots(made.l1, made.table, made.layout, image, text)
    embeds = made.io.embeds
    return pivots, pivot_cosines(embeds, made.l2, made.table, made.layout, pivots, image, text)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(("image", "text", "hidden"), [(4, 4, 8), (0, 3, 40), (9, 9, 200)])
def test_cosines(layout, dtype, image, text, hidden) -> None:
    made = prompt(*layout, hidden=hidden, planes=0, dtype=dtype)
    pivots, found = cosines(made, image, text)
    wide = torch.nn.functional.normalize(made.io.embeds.double(), dim=1)
    column = 0
    for span, quota, own in zip(made.io.spans, made.layout.counts, pivots[:-1], strict=True):
        turns = [*own[: min(image, quota)], *pivots[-1][: min(text, made.layout.text_tokens)]]
        expected = wide[torch.tensor(turns, dtype=torch.int64)] @ wide[span.start : span.end].T
        block = found[: len(turns), column : column + len(span)]
        torch.testing.assert_close(block, expected.float(), atol=2e-6, rtol=0)
        column += len(span)


def test_equal_rows_have_equal_cosines() -> None:
    row = torch.randn(300, generator=torch.Generator().manual_seed(3))
    embeds = torch.cat((torch.randn(3, 300), row.repeat(40, 1)))
    _, found = cosines(prompt(43, [(3, 43)], embeds=embeds, planes=0), 0, 3)
    assert (found == found[:, :1]).all()


def test_zero_rows_are_unrelated_to_everything() -> None:
    embeds = torch.ones(12, 16)
    embeds[4] = 0
    _, found = cosines(prompt(12, [(2, 12)], embeds=embeds, planes=0), 1, 1)
    expected = torch.ones(2, 10)
    expected[:, 2] = 0
    torch.testing.assert_close(found, expected)


@pytest.mark.filterwarnings("ignore:invalid:RuntimeWarning")
def test_what_is_no_number_counts_as_zero() -> None:
    made = prompt(12, [(2, 12)], embeds=torch.ones(12, 16), planes=0)
    pivots = find_pivots(made.l1, made.table, made.layout, 1, 1)
    made.io.embeds[5, 3] = torch.nan
    found = pivot_cosines(made.io.embeds, made.l2, made.table, made.layout, pivots, 1, 1)
    assert found[:, 3].tolist() == [0, 0]
    assert (found > 0.99).sum() == 18
