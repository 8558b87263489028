"""Pivots: the tokens of largest L1 norm of each span, and of the text."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...core.launch import Kernel, blocks
from ..layout import Layout
from .places import read_place

_MINE = 32
_THEIRS = 128


@triton.jit(do_not_specialize=["spans", "image_pivots", "text_pivots"])
def _pivots(
    l1, table, pivots, spans, image_pivots, text_pivots, MINE: tl.constexpr, THEIRS: tl.constexpr
):
    """Rank tokens within their group by counting those in front; the first few are its pivots.

    Grid: (tokens of the largest group / MINE, spans + 1); the last group is the text. Each program
    compares its tokens with all of their group, so nothing is sorted and ties are exact: the lower
    row is in front. Reads 4 n bytes from the L2 cache per program; n^2 comparisons of n tokens, no
    less than 1 us at 2,000 on 132 multiprocessors: launching it costs more.
    """
    group = tl.program_id(1)
    first = tl.program_id(0) * MINE
    start, tokens, count, _text, _kept = read_place(table, group)
    if first >= tokens:
        return
    width = tl.maximum(image_pivots, text_pivots)
    is_text = group == spans
    limit = tl.where(is_text, text_pivots, image_pivots)
    start = tl.where(is_text, 0, start)
    skipped = tl.where(is_text, spans, 0)  # text is what lies between this many spans

    mine = first + tl.arange(0, MINE)
    my_row = _row(table, start, mine, skipped)
    strength = tl.load(l1 + my_row, mask=mine < tokens, other=-1.0)
    in_front = tl.zeros((MINE, THEIRS), tl.int32)
    for other in range(0, tokens, THEIRS):
        theirs = other + tl.arange(0, THEIRS)
        row = _row(table, start, theirs, skipped)
        rival = tl.load(l1 + row, mask=theirs < tokens, other=-1.0)
        larger = rival[None, :] > strength[:, None]
        equal = (rival[None, :] == strength[:, None]) & (theirs[None, :] < mine[:, None])
        in_front += (larger | equal).to(tl.int32)
    rank = tl.sum(in_front, axis=1)
    chosen = (mine < tokens) & (rank < tl.minimum(limit, count))
    tl.store(pivots + group * width + rank, my_row, mask=chosen)


@triton.jit
def _row(table, start, place, skipped):
    """The prompt's row of a group's tokens; text jumps over the spans in front of it."""
    row = start + place
    for span in range(skipped):
        _start, length, _count, text_before, _kept = read_place(table, span)
        row += tl.where(place >= text_before, length, 0)
    return row


_KERNEL = Kernel(_pivots, num_warps=4)


def find_pivots(
    l1: Tensor, table: Tensor, layout: Layout, image_pivots: int, text_pivots: int
) -> Tensor:
    """Rows of the pivots, ``[S+1, max(image_pivots, text_pivots)]`` int32, by descending L1 norm.

    Row ``s`` holds ``min(image_pivots, count)`` pivots of span ``s``; the last row holds
    ``min(text_pivots, text tokens)`` of the text. Other entries are undefined.

    Args:
        l1: ``[T]`` fp32, none of them NaN.
        table: see ``place_table``.
    """
    spans = len(layout.spans)
    largest = max(layout.text_tokens, *map(len, layout.spans))
    width = max(image_pivots, text_pivots)
    pivots = torch.empty(spans + 1, width, dtype=torch.int32, device=l1.device)
    _KERNEL(
        (blocks(largest, _MINE), spans + 1, 1),
        (l1, table, pivots),
        (spans, image_pivots, text_pivots),
        (_MINE, _THEIRS),
    )
    return pivots
