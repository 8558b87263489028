"""The kernel that counts distinct tokens against the torch operators.

fp16 and fp32 only: Triton's interpreter cannot multiply bf16 matrices. On a GPU the benchmark
checks that, too.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from edgevlm.core import VisualSpan
from edgevlm.pruners.adaptive import SAMPLE, distinct_shares, span_edges
from edgevlm.pruners.kernels.distinct import count_distinct

from .prompts import coarse

# Adjacent ones, text in front and between, at and around the number of tokens that are sampled.
SIZES = [1, 2, 127, 128, 129, 1995]
ROWS = 2 + sum(SIZES) + 3 * len(SIZES)


def edges(sizes: list[int] = SIZES, gap: int = 3) -> Tensor:
    starts = [2 + sum(sizes[:index]) + gap * index for index in range(len(sizes))]
    spans = [VisualSpan(start, start + size, 0) for start, size in zip(starts, sizes, strict=True)]
    return span_edges(spans, torch.device("cpu"))


def groups(hidden: int, noise: float) -> Tensor:
    """Integers ``[ROWS,hidden]``, 16 different rows of which some are frequent, and noise."""
    generator = torch.Generator().manual_seed(1)
    group = torch.randint(16, (2, ROWS), generator=generator).amin(dim=0)
    grain = torch.randn(ROWS, hidden, generator=generator)
    return 5 * coarse(16, hidden, 0)[group] + noise * grain


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("hidden", [40, 128, 200])  # below, at and above blocks of columns
def test_exact_sums_count_the_same(dtype: torch.dtype, hidden: int) -> None:
    embeds = groups(hidden, noise=0.0).to(dtype)
    found = count_distinct(embeds, edges())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, distinct_shares(embeds, edges()), atol=1e-6, rtol=0)
    assert found[0] == 1 and (found[2:] < 17 / 127).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("hidden", [8, 200])
def test_random_numbers_count_the_same_but_for_rounding(dtype: torch.dtype, hidden: int) -> None:
    embeds = groups(hidden, noise=1.3).to(dtype)  # many cosines are near 0.9
    found, expected = count_distinct(embeds, edges()), distinct_shares(embeds, edges())
    assert 0.2 < expected[-1] < 0.9
    # A pair that counts otherwise moves a share by no more than this.
    torch.testing.assert_close(found, expected, atol=1 / SAMPLE, rtol=0)


def test_spans_beside_one_another_are_apart() -> None:
    embeds = torch.cat((coarse(2, 64, 1), coarse(4, 64, 2).repeat(5, 1), coarse(7, 64, 3)))
    found = count_distinct(embeds, edges([20, 7], gap=0))
    torch.testing.assert_close(found, torch.tensor([4 / 20, 1.0]))


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_equal_tokens_are_one_group(value: float) -> None:
    found = count_distinct(torch.full((ROWS, 40), value), edges())
    torch.testing.assert_close(found, 1 / torch.tensor(SIZES).clamp(max=SAMPLE))


def test_zeros_among_others_are_one_group() -> None:
    embeds = groups(40, noise=0.0)
    embeds[::3] = 0
    found = count_distinct(embeds, edges())
    torch.testing.assert_close(found, distinct_shares(embeds, edges()), atol=1e-6, rtol=0)
    assert (found[2:] < 18 / 127).all()


@pytest.mark.filterwarnings("ignore:invalid:RuntimeWarning")
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_what_is_no_number_is_distinct_and_harms_no_other_span(value: float) -> None:
    embeds, table = groups(40, noise=0.0), edges()
    before = count_distinct(embeds, table)
    embeds[0] = value  # text
    embeds[int(table[3, 0]) + 5, 3] = value
    before[3] = 1
    assert torch.equal(count_distinct(embeds, table), before)
