"""Row norms: one pass over the embeddings gives both norms of every token."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...core.launch import Kernel, blocks, power_of_two

_ROWS = 4
_CHUNK = 512


@triton.jit(do_not_specialize=["rows"])
def _row_norms(embeds, l1, l2, rows, HIDDEN: tl.constexpr, ROWS: tl.constexpr, CHUNK: tl.constexpr):
    """L1 and L2 norm of ``ROWS`` rows per program, in fp32.

    Grid: (T / ROWS). Reads ``[T,H]`` once, writes ``2 T`` floats: 10.3 MB, no less than 2.4 us, at
    2,020 x 2,560 bf16 and 4.3 TB/s. A row is summed lane by lane over its chunks, then across the
    lanes, in the same order for every row: equal rows have equal norms.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    column = tl.arange(0, CHUNK)
    begin = row.to(tl.int64)[:, None] * HIDDEN
    total = tl.zeros((ROWS, CHUNK), tl.float32)
    squares = tl.zeros((ROWS, CHUNK), tl.float32)
    for offset in tl.static_range(0, HIDDEN, CHUNK):
        there = inside[:, None] & (offset + column < HIDDEN)[None, :]
        x = tl.load(embeds + begin + (offset + column)[None, :], mask=there, other=0.0)
        x = x.to(tl.float32)
        total += tl.abs(x)
        squares += x * x
    length = tl.sqrt_rn(tl.sum(squares, axis=1))
    # Kernels that rank by the L1 norm stay in bounds only if it can be compared.
    strength = tl.where(length < float("inf"), tl.sum(total, axis=1), 0.0)
    tl.store(l1 + row, strength, mask=inside)
    tl.store(l2 + row, length, mask=inside)


_KERNEL = Kernel(_row_norms, num_warps=4)


def row_norms(embeds: Tensor) -> tuple[Tensor, Tensor]:
    """L1 and L2 norms, each ``[T]`` fp32, of the rows of ``embeds [T,H]``.

    Where a row's L2 norm is NaN or Inf, its L1 norm is 0.
    """
    rows, hidden = embeds.shape
    l1 = torch.empty(rows, dtype=torch.float32, device=embeds.device)
    l2 = torch.empty_like(l1)
    _KERNEL(
        (blocks(rows, _ROWS), 1, 1),
        (embeds.contiguous(), l1, l2),
        (rows,),
        (hidden, _ROWS, min(_CHUNK, power_of_two(hidden))),
    )
    return l1, l2
