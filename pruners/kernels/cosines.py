"""Cosines of every visual token to the pivots that its span is compared with."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...core.launch import Kernel, blocks, power_of_two
from ..layout import Layout
from .places import read_place

_TOKENS = 16
_CHUNK = 128


@triton.jit(do_not_specialize=["spans", "visual_tokens", "image_pivots", "text_pivots"])
def _cosines(
    embeds,
    l2,
    table,
    pivots,
    cosines,
    spans,
    visual_tokens,
    image_pivots,
    text_pivots,
    HIDDEN: tl.constexpr,
    PIVOTS: tl.constexpr,
    TOKENS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """``dot / max(norm * norm, 1e-8)`` in fp32 for ``TOKENS`` tokens and all pivots of their span.

    Grid: (tokens of the largest span / TOKENS, spans). Reads the visual rows once, from the L2
    cache if they fit there after the pass that made the norms, and the pivots' rows once per
    program; writes 4 P n bytes. Multiplication, division and comparison with the floor round as on
    a CPU. Only the order of the dot product's sum is the tensor cores' own, and it is the same for
    all tokens: equal rows have equal cosines. A cosine that would be NaN is 0.
    """
    span = tl.program_id(1)
    first = tl.program_id(0) * TOKENS
    start, tokens, count, text_before, _kept = read_place(table, span)
    if first >= tokens:
        return
    width = tl.maximum(image_pivots, text_pivots)
    own = tl.minimum(image_pivots, count)
    turns = own + tl.minimum(text_pivots, tl.load(table + spans * 5 + 1))

    turn = tl.arange(0, PIVOTS)
    slot = tl.where(turn < own, span * width + turn, spans * width + turn - own)
    pivot = tl.load(pivots + slot, mask=turn < turns, other=0).to(tl.int64)
    token = first + tl.arange(0, TOKENS)
    row = (start + token).to(tl.int64)
    inside = token < tokens
    column = tl.arange(0, CHUNK)
    dots = tl.zeros((TOKENS, PIVOTS), tl.float32)
    for offset in tl.range(0, HIDDEN, CHUNK):
        there = offset + column < HIDDEN
        x = tl.load(
            embeds + row[:, None] * HIDDEN + (offset + column)[None, :],
            mask=inside[:, None] & there[None, :],
            other=0.0,
        )  # [TOKENS,CHUNK]
        y = tl.load(
            embeds + pivot[None, :] * HIDDEN + (offset + column)[:, None],
            mask=there[:, None],
            other=0.0,
        )  # [CHUNK,PIVOTS]
        dots = tl.dot(x, y, dots, input_precision="ieee")
    norms = tl.load(l2 + row, mask=inside, other=1.0)[:, None] * tl.load(l2 + pivot)[None, :]
    cosine = tl.div_rn(dots, tl.maximum(norms, 1e-8))
    cosine = tl.where(cosine == cosine, cosine, 0.0)
    tl.store(
        cosines + turn[None, :] * visual_tokens + (start - text_before + token)[:, None],
        cosine,
        mask=inside[:, None] & (turn < turns)[None, :],
    )


_HALF = Kernel(_cosines, num_warps=4, num_stages=4)
_SINGLE = Kernel(_cosines, num_warps=4, num_stages=2)  # its tiles are twice as large


def pivot_cosines(
    embeds: Tensor,
    l2: Tensor,
    table: Tensor,
    layout: Layout,
    pivots: Tensor,
    image_pivots: int,
    text_pivots: int,
) -> Tensor:
    """Cosines ``[image_pivots + text_pivots, n]`` fp32 of all ``n`` visual tokens to their pivots.

    Row ``t`` belongs to the pivot whose turn is ``t``: the span's own, then the text's. Rows beyond
    the number of pivots that a span has are undefined.

    Args:
        embeds: ``[T,H]`` contiguous.
        l2: ``[T]`` fp32, norms of its rows.
        pivots: see ``find_pivots``.
    """
    turns = image_pivots + text_pivots
    cosines = torch.empty(turns, layout.visual_tokens, dtype=torch.float32, device=embeds.device)
    hidden = embeds.shape[1]
    kernel = _SINGLE if embeds.dtype == torch.float32 else _HALF
    kernel(
        (blocks(max(map(len, layout.spans)), _TOKENS), len(layout.spans), 1),
        (embeds, l2, table, pivots, cosines),
        (len(layout.spans), layout.visual_tokens, image_pivots, text_pivots),
        (hidden, max(16, power_of_two(turns)), _TOKENS, min(_CHUNK, max(16, power_of_two(hidden)))),
    )
    return cosines
