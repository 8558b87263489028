"""Orders: each candidate's place is the number of those before it, counted.

Every two candidates of an expert are compared, so no sort, no wait and no temporary is needed;
with ``n`` of them that is ``n * n`` comparisons of two registers, spread over the GPU.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ....core.launch import Kernel, blocks
from .settings import REROUTE, option
from .workspace import Workspace

_BLOCK = 32
_CHUNK = 128  # keys that each of a block is compared with at a time


@triton.jit
def _rank(keys, mine, number, BLOCK: tl.constexpr, CHUNK: tl.constexpr):
    """How many of ``number`` keys, all distinct, are above each of those at ``mine [BLOCK]``."""
    key = tl.load(keys + mine, mask=mine < number, other=0)
    above = tl.zeros((BLOCK, CHUNK), tl.int32)
    for first in range(0, number, CHUNK):
        other = first + tl.arange(0, CHUNK)
        rival = tl.load(keys + other, mask=other < number, other=-1)
        above += (rival[None, :] > key[:, None]).to(tl.int32)
    return tl.sum(above, axis=1)


@triton.jit(do_not_specialize=["count"])
def _admission_ranks(
    asked,
    keys,
    asking,
    ordered,
    count,
    EXPERTS: tl.constexpr,
    BLOCK: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Grid: (N, blocks of candidates)."""
    expert = tl.program_id(0).to(tl.int64)
    number = tl.load(asked + EXPERTS + expert).to(tl.int32)
    first = tl.program_id(1) * BLOCK
    if first >= number:
        return
    mine = first + tl.arange(0, BLOCK)
    rank = _rank(keys + expert * count, mine, number, BLOCK, CHUNK)
    slot = tl.load(asking + expert * count + mine, mask=mine < number, other=0)
    tl.store(ordered + expert * count + rank, slot, mask=mine < number)


@triton.jit
def _queue_ranks(
    settings, state, turned_keys, turned, turns, BLOCK: tl.constexpr, CHUNK: tl.constexpr
):
    """Grid: (blocks of pairs). Where a pair came in the list was chance; keys tell its place."""
    number = tl.load(state).to(tl.int32)
    first = tl.program_id(0) * BLOCK
    if (first >= number) | (option(settings, REROUTE) == 0):
        return
    mine = first + tl.arange(0, BLOCK)
    rank = _rank(turned_keys, mine, number, BLOCK, CHUNK)
    slot = tl.load(turned + mine, mask=mine < number, other=0)
    tl.store(turns + slot, rank, mask=mine < number)


_ADMISSION = Kernel(_admission_ranks, num_warps=4)
_QUEUE = Kernel(_queue_ranks, num_warps=4)


def order_candidates(work: Workspace) -> None:
    """Fill ``ordered`` from ``keys`` and ``asking``."""
    grid = (work.experts, blocks(work.count, _BLOCK), 1)
    tensors = (work.asked, work.keys, work.asking, work.ordered)
    _ADMISSION(grid, tensors, (work.count,), (work.experts, _BLOCK, _CHUNK))


def order_queue(work: Workspace) -> None:
    """Fill ``turns`` from ``turned_keys`` and ``turned``."""
    tensors = (work.settings, work.state, work.turned_keys, work.turned, work.turns)
    grid = (blocks(work.ids.numel(), _BLOCK), 1, 1)
    _QUEUE(grid, tensors, (), (_BLOCK, _CHUNK))
