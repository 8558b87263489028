"""Growth: pivot by pivot, the least similar tokens join what is kept of each span."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...core.launch import Kernel
from ..layout import Layout
from .places import read_place

_CHUNK = 512


@triton.jit(do_not_specialize=["spans", "visual_tokens", "image_pivots", "text_pivots"])
def _growth(
    orders,
    table,
    pivots,
    taken,
    kept,
    spans,
    visual_tokens,
    image_pivots,
    text_pivots,
    CHUNK: tl.constexpr,
    PIVOTS: tl.constexpr,
):
    """Take the span's pivots, then for each pivot its share of free tokens, least similar first.

    Grid: (spans). At its turn a pivot's order is walked from the front, ``CHUNK`` tokens at a time,
    until the share is full; as at most all kept so far are in the way, that is soon. Latency, not
    traffic, is what it costs: per chunk two dependent loads, a scan and a store. With 8 pivots,
    2,000 tokens and a quarter removed that is 11 chunks, and 2 to write the rows out.
    """
    span = tl.program_id(0)
    start, tokens, count, text_before, kept_before = read_place(table, span)
    width = tl.maximum(image_pivots, text_pivots)
    own = tl.minimum(image_pivots, count)
    turns = own + tl.minimum(text_pivots, tl.load(table + spans * 5 + 1))
    lane = tl.arange(0, CHUNK)
    taken += start - text_before
    orders += start - text_before

    for first in range(0, tokens, CHUNK):
        tl.store(taken + first + lane, tl.zeros((CHUNK,), tl.int8), mask=first + lane < tokens)
    tl.debug_barrier()
    slot = tl.arange(0, PIVOTS)
    pivot = tl.load(pivots + span * width + slot, mask=slot < own, other=0)
    tl.store(taken + pivot - start, tl.full((PIVOTS,), 1, tl.int8), mask=slot < own)
    tl.debug_barrier()

    missing = count - own
    for turn in range(turns):
        share = tl.cdiv(missing, turns - turn)
        found = 0
        first = 0
        while (found < share) & (first < tokens):
            there = first + lane < tokens
            token = tl.load(orders + turn * visual_tokens + first + lane, mask=there, other=0)
            free = (tl.load(taken + token, mask=there, other=1) == 0).to(tl.int32)
            place = found + tl.cumsum(free, 0)
            joins = (free > 0) & (place <= share)
            tl.store(taken + token, tl.full((CHUNK,), 1, tl.int8), mask=joins)
            found += tl.sum(free, axis=0)
            first += CHUNK
        missing -= share
        tl.debug_barrier()  # the next pivot sees what this one took

    written = kept_before
    for first in range(0, tokens, CHUNK):
        token = first + lane
        stays = tl.load(taken + token, mask=token < tokens, other=0).to(tl.int32)
        place = written + tl.cumsum(stays, 0) - 1
        tl.store(kept + place, (start + token).to(tl.int64), mask=stays > 0)
        written += tl.sum(stays, axis=0)


_KERNEL = Kernel(_growth, num_warps=8)


def grow(
    orders: Tensor,
    table: Tensor,
    layout: Layout,
    pivots: Tensor,
    image_pivots: int,
    text_pivots: int,
) -> Tensor:
    """The kept visual rows ``[k]`` int64, ascending: ``layout.counts[s]`` of span ``s``.

    Args:
        orders: see ``pivot_orders``.
        pivots: see ``find_pivots``.
    """
    device = orders.device
    taken = torch.empty(layout.visual_tokens, dtype=torch.int8, device=device)
    kept = torch.empty(layout.kept_tokens, dtype=torch.int64, device=device)
    _KERNEL(
        (len(layout.spans), 1, 1),
        (orders, table, pivots, taken, kept),
        (len(layout.spans), layout.visual_tokens, image_pivots, text_pivots),
        (_CHUNK, 64),
    )
    return kept
