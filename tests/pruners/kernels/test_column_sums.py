"""The kernels of attention importance against the materialised attention."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from edgevlm.pruners.kernels.column_sums import column_sums
from edgevlm.pruners.kernels.log_sum_exp import log_sum_exp
from edgevlm.pruners.kernels.segments import HeadTiles, segment_table

from ..test_attention_importance import GOLDEN, golden


def attention(batch: int, heads: int, tokens: int, width: int, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(width)
    q, k = torch.randn(2, batch, heads, tokens, width, generator=generator)
    return [(2 * q).to(dtype), k.to(dtype)]


def expected(q: Tensor, k: Tensor, bounds, scale: float) -> tuple[Tensor, Tensor]:
    """LSE and column sums ``[B,H,N]``; 0 where no segment is."""
    lse, sums = torch.zeros(2, *q.shape[:3])
    for batch, start, length in bounds:
        rows = slice(start, start + length)
        scores = q[batch, :, rows].double() @ k[batch, :, rows].double().mT * scale
        lse[batch, :, rows] = scores.logsumexp(-1).float()
        sums[batch, :, rows] = scores.softmax(-1).sum(1).float()
    return lse, sums


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])  # the interpreter knows no bf16
@pytest.mark.parametrize("width", [16, 17, 24, 64, 72, 80, 128])
def test_head_widths(width: int, dtype: torch.dtype) -> None:
    q, k = attention(1, 2, 40, width, dtype)
    bounds = [(0, 0, 40)]
    lse, sums = expected(q, k, bounds, 0.2)
    found = log_sum_exp(q, k, bounds, segment_table(bounds, q, k), 0.2)
    torch.testing.assert_close(found, lse, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(column_sums(q, k, bounds, 0.2), sums, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(column_sums(q, k, bounds, 0.2, lse), sums, atol=1e-4, rtol=1e-4)


def test_golden_vector() -> None:
    q, k = (torch.nn.functional.pad(x.transpose(0, 1)[None], (0, 13)) for x in golden())
    found = column_sums(q, k, [(0, 0, 4), (0, 4, 4)], 3**-0.5).mean(dim=1)[0]
    torch.testing.assert_close(found, torch.tensor(GOLDEN), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    "bounds",
    [
        [(0, 0, 150), (1, 0, 1), (2, 0, 77)],  # a padded batch, over more than one tile
        [(0, 0, 20), (0, 20, 129), (0, 149, 1)],  # packed
        [(1, 130, 20), (1, 3, 64), (0, 0, 128)],  # anything, in any order
    ],
)
def test_segments(bounds) -> None:
    q, k = attention(3, 1, 150, 16, torch.float16)
    _, sums = expected(q, k, bounds, 0.3)
    found = column_sums(q, k, bounds, 0.3)
    torch.testing.assert_close(found, sums, atol=1e-4, rtol=1e-4)
    for batch, start, length in bounds:
        assert found[batch, 0, start : start + length].sum().item() == pytest.approx(length, 1e-4)


def test_any_strides() -> None:
    q, k = attention(2, 2, 30, 24, torch.float16)
    bounds = [(0, 0, 30), (1, 5, 12)]
    plain = column_sums(q, k, bounds, 0.2)
    by_token = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k)]
    assert torch.equal(column_sums(*by_token, bounds, 0.2), plain)
    odd = [torch.cat((x, x), -1)[..., :24] for x in (q.mT.contiguous().mT, k)]
    assert torch.equal(column_sums(*odd, bounds, 0.2), plain)


def test_large_scores_do_not_overflow() -> None:
    q, k = attention(1, 1, 33, 16, torch.float32)
    bounds = [(0, 0, 33)]
    _, sums = expected(q, k, bounds, 50.0)
    torch.testing.assert_close(column_sums(q, k, bounds, 50.0), sums, atol=1e-3, rtol=1e-3)


def test_repeated_runs_agree_to_the_bit() -> None:
    q, k = attention(1, 3, 140, 16, torch.float16)
    bounds = [(0, 0, 140)]
    assert torch.equal(column_sums(q, k, bounds, 0.2), column_sums(q, k, bounds, 0.2))


def test_head_tiles() -> None:
    tiles = {width: (HeadTiles(width).main, HeadTiles(width).tail) for width in (16, 17, 72, 128)}
    assert tiles == {16: (16, 0), 17: (16, 16), 72: (64, 16), 128: (128, 0)}
    for width in (15, 129):
        with pytest.raises(ValueError, match=f"must be 16 to 128, got {width}"):
            HeadTiles(width)
