"""Segments of independent attention as kernels see them: where each begins, and tiles of a head."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...core.launch import power_of_two

LOG2_E = tl.constexpr(1.4426950408889634)

_SMALLEST_TILE = 16  # of a matrix product
_WIDEST_HEAD = 128


@dataclass(frozen=True)
class HeadTiles:
    """A head of any width as one or two tiles whose widths are powers of two.

    72 is 64 + 8, the latter padded to 16: that is 80 columns of arithmetic, where the next power of
    two would be 128.
    """

    width: int

    def __post_init__(self) -> None:
        if not _SMALLEST_TILE <= self.width <= _WIDEST_HEAD:
            raise ValueError(
                f"the head dimension must be {_SMALLEST_TILE} to {_WIDEST_HEAD}, got {self.width}"
            )

    @property
    def main(self) -> int:
        """Width of the first tile."""
        return 1 << (self.width.bit_length() - 1)

    @property
    def tail(self) -> int:
        """Width of the second tile; 0 if there is none."""
        rest = self.width - self.main
        return max(_SMALLEST_TILE, power_of_two(rest)) if rest else 0


def segment_table(bounds: list[tuple[int, int, int]], q: Tensor, k: Tensor) -> Tensor:
    """Where each segment begins in ``q [B,H,N,D]``, in ``k`` and in ``[B,H,N]``, and its length.

    Args:
        bounds: of each segment its index in the batch, first patch and length.

    Returns:
        ``[S,4]`` int64 on the device of ``q``: offsets in elements, for head 0.
    """
    heads, tokens = q.shape[1:3]
    rows = [
        (
            batch * q.stride(0) + first * q.stride(2),
            batch * k.stride(0) + first * k.stride(2),
            batch * heads * tokens + first,
            length,
        )
        for batch, first, length in bounds
    ]
    host = torch.tensor(rows, dtype=torch.int64, pin_memory=q.is_cuda)
    return host.to(q.device, non_blocking=True)


def alignment(*tensors: Tensor) -> int:
    """8 if all rows of all ``tensors`` begin at a multiple of 8 elements, else 1."""
    strides = [stride for tensor in tensors for stride in tensor.stride()[:-1]]
    return 1 if any(stride % 8 for stride in strides) else 8


@triton.jit
def read_segment(table, segment):
    """The four entries of one segment of a table."""
    row = table + segment * 4
    return tl.load(row), tl.load(row + 1), tl.load(row + 2), tl.load(row + 3).to(tl.int32)


@triton.jit
def head_tile(
    base,
    rows,
    length,
    token_stride,
    FIRST: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    ALIGNED: tl.constexpr,
):
    """Columns ``FIRST`` to ``FIRST + TILE`` of a head's ``rows``; zeros beyond either edge."""
    column = FIRST + tl.arange(0, TILE)
    offset = tl.multiple_of(rows.to(tl.int64) * token_stride, [ALIGNED])
    there = (rows < length)[:, None] & (column < WIDTH)[None, :]
    return tl.load(base + offset[:, None] + column[None, :], mask=there, other=0.0)
