"""A matrix times a few vectors: decoding several sequences at once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ....pruners.kernels.launch import Kernel, blocks

MOST_ROWS = 16
_CHUNK = 256
_MANY = 8192  # outputs from which on 32 per program leave enough programs for a large GPU


@triton.jit(do_not_specialize=["rows"])
def _skinny_linear(
    x,
    weight,
    y,
    rows,
    SIZE: tl.constexpr,
    OUT: tl.constexpr,
    ADD: tl.constexpr,
    TOKENS: tl.constexpr,
    TILE: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """``TILE`` outputs of all rows per program; grid: (outputs / TILE).

    The weights pass once, through a pipeline of asynchronous copies, and are the first operand of
    a matrix product whose second is the few rows, padded to ``TOKENS``.
    """
    output = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = output < OUT
    token = tl.arange(0, TOKENS)
    column = tl.arange(0, CHUNK)
    line = output.to(tl.int64)[:, None] * SIZE
    total = tl.zeros((TILE, TOKENS), tl.float32)
    for offset in tl.range(0, SIZE, CHUNK):
        there = offset + column < SIZE
        w = tl.load(
            weight + line + (offset + column)[None, :],
            mask=inside[:, None] & there[None, :],
            other=0.0,
        )  # [TILE,CHUNK]
        value = tl.load(
            x + token[None, :] * SIZE + (offset + column)[:, None],
            mask=(token < rows)[None, :] & there[:, None],
            other=0.0,
        )  # [CHUNK,TOKENS]
        total = tl.dot(w, value, total, input_precision="ieee")
    place = y + token[None, :] * OUT + output[:, None]
    mask = inside[:, None] & (token < rows)[None, :]
    if ADD:
        total += tl.load(place, mask=mask, other=0.0).to(tl.float32)
    tl.store(place, total, mask=mask)


_HALF = Kernel(_skinny_linear, num_warps=4, num_stages=4)
_SINGLE = Kernel(_skinny_linear, num_warps=4, num_stages=2)  # its tiles are twice as large


def skinny_linear(
    x: Tensor, weight: Tensor, *, add_to: Tensor | None = None, dtype: torch.dtype | None = None
) -> Tensor:
    """``x [R,K]``, R up to 16, times ``weight [N,K]``, both contiguous: ``[R,N]``.

    Args:
        add_to: ``[R,N]`` the result is added to, and returned; nothing else is allocated.
        dtype: of the result; that of ``x`` if ``None``.
    """
    rows, size = x.shape
    out = weight.shape[0]
    y = x.new_empty(rows, out, dtype=dtype) if add_to is None else add_to
    tile = 32 if out >= _MANY else 16
    kernel = _SINGLE if x.dtype == torch.float32 else _HALF
    kernel(
        (blocks(out, tile), 1, 1),
        (x, weight, y),
        (rows,),
        (size, out, add_to is not None, MOST_ROWS, tile, _CHUNK),
    )
    return y
