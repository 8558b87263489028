"""The first grouped product: each slot's row through its expert's gate and up matrices."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ....core.launch import Kernel, blocks
from .plan import Plan
from .tiling import TILINGS, Tile


@triton.jit
def _gate_up(
    hidden,
    gate_up,
    order,
    tiles,
    inner,
    TOP_K: tl.constexpr,
    HIDDEN: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """``COLUMNS`` of ``silu(x @ gate) * (x @ up)`` for the slots of one tile, sums in fp32.

    Grid: (width / COLUMNS, tiles). Neighbouring programs read neighbouring columns of one expert,
    and tiles of one expert follow each other: its weights come from memory once. 6.3 MB per active
    expert at hidden 2,048 and width 768 in bf16, no less than 136 us for 93 of them at 4.3 TB/s.
    """
    tile = tl.program_id(1)
    expert = tl.load(tiles + tile * 3).to(tl.int64)
    begin = tl.load(tiles + tile * 3 + 1)
    end = tl.load(tiles + tile * 3 + 2)
    if begin == end:
        return
    place = begin + tl.arange(0, ROWS)
    there = (place < end)[:, None]
    slot = tl.load(order + place, mask=place < end, other=0)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (column < WIDTH)[None, :]
    depth = tl.arange(0, DEPTH)
    x_at = hidden + (slot // TOP_K).to(tl.int64)[:, None] * HIDDEN + depth[None, :]
    w_at = gate_up + expert * HIDDEN * 2 * WIDTH + depth[:, None] * 2 * WIDTH + column[None, :]

    gate = tl.zeros((ROWS, COLUMNS), tl.float32)
    up = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in tl.range(0, HIDDEN, DEPTH):
        if HIDDEN % DEPTH == 0 and WIDTH % COLUMNS == 0:
            x = tl.load(x_at, mask=there, other=0.0)
            w = tl.load(w_at)
            v = tl.load(w_at + WIDTH)
        else:
            left = depth < HIDDEN - first
            x = tl.load(x_at, mask=there & left[None, :], other=0.0)
            w = tl.load(w_at, mask=left[:, None] & inside, other=0.0)
            v = tl.load(w_at + WIDTH, mask=left[:, None] & inside, other=0.0)
        gate = tl.dot(x, w, gate, input_precision="ieee")
        up = tl.dot(x, v, up, input_precision="ieee")
        x_at += DEPTH
        w_at += DEPTH * 2 * WIDTH
    gate = gate * tl.sigmoid(gate) * up
    y_at = inner + place.to(tl.int64)[:, None] * WIDTH + column[None, :]
    tl.store(y_at, gate.to(inner.dtype.element_ty), mask=there & inside)


_KERNELS = {
    tile: Kernel(_gate_up, num_warps=tile.warps, num_stages=tile.stages)
    for tile in {tiling.gate_up for tiling in TILINGS}
}


def gate_up_product(hidden: Tensor, gate_up: Tensor, plan: Plan, top_k: int, tile: Tile) -> Tensor:
    """``silu(x @ gate) * (x @ up)``, ``[S,I]``, in the order of ``plan``.

    Rows past the plan's last slot are undefined.

    Args:
        hidden: ``[R,H]`` contiguous.
        gate_up: ``[N,H,2I]`` contiguous, of the same dtype.
        top_k: slots per row.
        tile: of one of ``TILINGS``.
    """
    width = gate_up.shape[2] // 2
    inner = hidden.new_empty(plan.order.shape[0], width)
    _KERNELS[tile](
        (blocks(width, tile.columns), plan.tiles.shape[0], 1),
        (hidden, gate_up, plan.order, plan.tiles, inner),
        (),
        (top_k, hidden.shape[1], width, plan.rows, tile.columns, tile.depth),
    )
    return inner
