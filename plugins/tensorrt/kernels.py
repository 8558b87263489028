"""Kernels with the parameters in TensorRT's order: inputs, integers, outputs, constants.

A kernel that is part of an engine is called so. Each of these is one of the package's kernels in
another dress; it has no code of its own but the choice of a table.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ..experts.kernels.down import _down
from ..experts.kernels.gate_up import _gate_up
from ..experts.kernels.plan import _plan
from ..sere.kernel import _reroute


@triton.jit(do_not_specialize=["rows"])
def sere_routing(
    expert_ids,
    similarity,
    protected,
    decode_rows,
    top_k,
    threshold,
    rows,
    routed_ids,
    active,
    K: tl.constexpr,
    EXPERTS: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    SLOTS: tl.constexpr,
    ROWS: tl.constexpr,
    COUNTED: tl.constexpr,
):
    """Re-routing: see :mod:`edgevlm.plugins.sere.kernel`."""
    _reroute(expert_ids, similarity, protected, decode_rows, top_k, threshold, routed_ids, active,
             rows, K, EXPERTS, WIDTH, TILE, SLOTS, ROWS, COUNTED, False, False)  # fmt: skip


@triton.jit(do_not_specialize=["slots", "most_16", "most_32", "most_64", "most_128"])
def plan(
    expert_ids,
    slots,
    most_16,
    most_32,
    most_64,
    most_128,
    order,
    tiles_16,
    tiles_32,
    tiles_64,
    tiles_128,
    EXPERTS: tl.constexpr,
    BINS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Slots in order, and their tiles for products of any tile height.

    Grid: (experts, 4). The products choose how high their tiles are each for itself, so there is a
    table for every choice; all write the same ``order``.
    """
    table = tl.program_id(1)
    if table == 0:
        _plan(expert_ids, order, tiles_16, slots, most_16, EXPERTS, BINS, 16, CHUNK, False)
    elif table == 1:
        _plan(expert_ids, order, tiles_32, slots, most_32, EXPERTS, BINS, 32, CHUNK, False)
    elif table == 2:
        _plan(expert_ids, order, tiles_64, slots, most_64, EXPERTS, BINS, 64, CHUNK, False)
    else:
        _plan(expert_ids, order, tiles_128, slots, most_128, EXPERTS, BINS, 128, CHUNK, False)


@triton.jit
def gate_up(
    hidden,
    gate_up,
    order,
    tiles_16,
    tiles_32,
    tiles_64,
    tiles_128,
    inner,
    TOP_K: tl.constexpr,
    HIDDEN: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """The first product: see :mod:`edgevlm.plugins.experts.kernels.gate_up`."""
    tiles = _table(tiles_16, tiles_32, tiles_64, tiles_128, ROWS)
    _gate_up(hidden, gate_up, order, tiles, inner, TOP_K, HIDDEN, WIDTH, ROWS, COLUMNS, DEPTH)


@triton.jit
def down(
    inner,
    down,
    expert_weights,
    order,
    tiles_16,
    tiles_32,
    tiles_64,
    tiles_128,
    parts,
    HIDDEN: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """The second product: see :mod:`edgevlm.plugins.experts.kernels.down`."""
    tiles = _table(tiles_16, tiles_32, tiles_64, tiles_128, ROWS)
    _down(inner, down, expert_weights, order, tiles, parts, HIDDEN, WIDTH, ROWS, COLUMNS, DEPTH)


@triton.jit
def _table(tiles_16, tiles_32, tiles_64, tiles_128, ROWS: tl.constexpr):
    if ROWS == 16:
        tiles = tiles_16
    elif ROWS == 32:
        tiles = tiles_32
    elif ROWS == 64:
        tiles = tiles_64
    else:
        tiles = tiles_128
    return tiles
