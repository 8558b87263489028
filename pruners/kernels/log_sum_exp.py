"""Log-sum-exp of attention scores: the normaliser of each query, where no engine delivers it."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...core.launch import Kernel, blocks
from .segments import LOG2_E, HeadTiles, alignment, head_tile, read_segment


@triton.jit(do_not_specialize=["scale", "tokens", "q_head", "q_token", "k_head", "k_token"])
def _log_sum_exp(
    q,
    k,
    table,
    lse,
    scale,
    tokens,
    q_head,
    q_token,
    k_head,
    k_token,
    WIDTH: tl.constexpr,
    MAIN: tl.constexpr,
    TAIL: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    ALIGNED: tl.constexpr,
):
    """``ln sum_p exp(scale q_i . k_p)`` for ``QUERIES`` queries of one head and segment, online.

    Grid: (queries of the longest segment / QUERIES, heads, segments). The queries stay, all keys
    pass by; a running maximum keeps the sum in range. Costs what the column sums cost.
    """
    head = tl.program_id(1)
    q_begin, k_begin, begin, length = read_segment(table, tl.program_id(2))
    first = tl.program_id(0) * QUERIES
    if first >= length:
        return
    q += tl.multiple_of(q_begin + head * q_head, ALIGNED)
    k += tl.multiple_of(k_begin + head * k_head, ALIGNED)
    lse += begin + head * tokens

    query = first + tl.arange(0, QUERIES)
    q_main = head_tile(q, query, length, q_token, 0, WIDTH, MAIN, ALIGNED)  # [QUERIES,MAIN]
    if TAIL:
        q_tail = head_tile(q, query, length, q_token, MAIN, WIDTH, TAIL, ALIGNED)
    highest = tl.full((QUERIES,), -float("inf"), tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    for other in tl.range(0, length, KEYS):
        key = other + tl.arange(0, KEYS)
        k_main = head_tile(k, key, length, k_token, 0, WIDTH, MAIN, ALIGNED)
        score = tl.dot(q_main, tl.trans(k_main), input_precision="ieee")  # [QUERIES,KEYS]
        if TAIL:
            k_tail = head_tile(k, key, length, k_token, MAIN, WIDTH, TAIL, ALIGNED)
            score = tl.dot(q_tail, tl.trans(k_tail), score, input_precision="ieee")
        score = tl.where((key < length)[None, :], score * scale, -float("inf"))
        higher = tl.maximum(highest, tl.max(score, axis=1))
        total = total * tl.exp2(highest - higher)
        total += tl.sum(tl.exp2(score - higher[:, None]), axis=1)
        highest = higher
    natural = (highest + tl.log2(total)) / LOG2_E
    tl.store(lse + query, natural, mask=query < length)


_HALF = Kernel(_log_sum_exp, num_warps=4, num_stages=3)
_SINGLE = Kernel(_log_sum_exp, num_warps=4, num_stages=1)


def log_sum_exp(
    q: Tensor, k: Tensor, bounds: list[tuple[int, int, int]], table: Tensor, scale: float
) -> Tensor:
    """Natural logarithm ``[B,H,N]`` fp32 of each query's sum of ``exp(scale q . k)``.

    Undefined where no segment is.

    Args:
        q, k, bounds, scale: see ``column_sums``.
        table: ``bounds`` on the device, see ``segment_table``.
    """
    batch, heads, tokens, width = q.shape
    lse = torch.empty(batch, heads, tokens, dtype=torch.float32, device=q.device)
    tiles = HeadTiles(width)
    kernel, queries, keys = (_SINGLE, 32, 32) if q.dtype == torch.float32 else (_HALF, 128, 64)
    longest = max(length for _, _, length in bounds)
    kernel(
        (blocks(longest, queries), heads, len(bounds)),
        (q, k, table, lse),
        (scale * LOG2_E.value, tokens, *q.stride()[1:3], *k.stride()[1:3]),
        (width, tiles.main, tiles.tail, queries, keys, alignment(q, k)),
    )
    return lse
