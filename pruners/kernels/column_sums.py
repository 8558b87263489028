"""Column sums of softmax attention: what each key receives, from queries, keys and their LSE."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...core.launch import Kernel, blocks
from .log_sum_exp import log_sum_exp
from .segments import LOG2_E, HeadTiles, alignment, head_tile, read_segment, segment_table


@triton.jit(do_not_specialize=["scale", "tokens", "q_head", "q_token", "k_head", "k_token"])
def _column_sums(
    q,
    k,
    lse,
    table,
    sums,
    scale,
    tokens,
    q_head,
    q_token,
    k_head,
    k_token,
    WIDTH: tl.constexpr,
    MAIN: tl.constexpr,
    TAIL: tl.constexpr,
    KEYS: tl.constexpr,
    QUERIES: tl.constexpr,
    ALIGNED: tl.constexpr,
):
    """``sum_i exp(scale q_i . k_p - lse_i)`` for ``KEYS`` keys of one head and segment.

    Grid: (keys of the longest segment / KEYS, heads, segments). The keys stay; all queries of the
    segment pass by, a tile of scores at a time, in a fixed order. Arithmetic: 2 N^2 D operations
    per head, half of the attention itself, and N^2 exponentials. At 4,096 patches, 16 heads and D =
    72 in bf16 that is 43 GFLOP on the tensor cores (80 columns), no less than 55 us at 790 TFLOP/s,
    and 268 million exponentials, no less than 67 us at 16 per clock on 132 multiprocessors. Memory:
    q and k from the L2 cache, 4 bytes per head and patch written.
    """
    head = tl.program_id(1)
    q_begin, k_begin, begin, length = read_segment(table, tl.program_id(2))
    first = tl.program_id(0) * KEYS
    if first >= length:
        return
    q += tl.multiple_of(q_begin + head * q_head, ALIGNED)
    k += tl.multiple_of(k_begin + head * k_head, ALIGNED)
    lse += begin + head * tokens
    sums += begin + head * tokens

    key = first + tl.arange(0, KEYS)
    k_main = head_tile(k, key, length, k_token, 0, WIDTH, MAIN, ALIGNED)  # [KEYS,MAIN]
    if TAIL:
        k_tail = head_tile(k, key, length, k_token, MAIN, WIDTH, TAIL, ALIGNED)
    received = tl.zeros((KEYS,), tl.float32)
    for other in tl.range(0, length, QUERIES):
        query = other + tl.arange(0, QUERIES)
        # An absent query has an infinite LSE: it gives nobody anything.
        norm = tl.load(lse + query, mask=query < length, other=float("inf")) * LOG2_E
        q_main = head_tile(q, query, length, q_token, 0, WIDTH, MAIN, ALIGNED)
        score = tl.dot(k_main, tl.trans(q_main), input_precision="ieee")  # [KEYS,QUERIES]
        if TAIL:
            q_tail = head_tile(q, query, length, q_token, MAIN, WIDTH, TAIL, ALIGNED)
            score = tl.dot(k_tail, tl.trans(q_tail), score, input_precision="ieee")
        weight = tl.exp2(score * scale - norm[None, :])
        received += tl.sum(weight, axis=1)
    tl.store(sums + key, received, mask=key < length)


_HALF = Kernel(_column_sums, num_warps=4, num_stages=3)
_SINGLE = Kernel(_column_sums, num_warps=4, num_stages=1)


def column_sums(
    q: Tensor,
    k: Tensor,
    bounds: list[tuple[int, int, int]],
    scale: float,
    lse: Tensor | None = None,
) -> Tensor:
    """Attention received by each key, summed over the queries of its segment: ``[B,H,N]`` fp32.

    0 where no segment is.

    Args:
        q, k: ``[B,H,N,D]`` fp16, bf16 or fp32, D 16 to 128.
        bounds: of each segment its index in the batch, first patch and length.
        scale: of the softmax.
        lse: ``[B,H,N]`` fp32, see ``log_sum_exp``; computed if ``None``.
    """
    q, k = (t if t.stride(-1) == 1 else t.contiguous() for t in (q, k))
    table = segment_table(bounds, q, k)
    if lse is None:
        lse = log_sum_exp(q, k, bounds, table, scale)
    batch, heads, tokens, width = q.shape
    sums = torch.zeros(batch, heads, tokens, dtype=torch.float32, device=q.device)
    tiles = HeadTiles(width)
    kernel, keys, queries = (_SINGLE, 32, 32) if q.dtype == torch.float32 else (_HALF, 128, 64)
    longest = max(length for _, _, length in bounds)
    kernel(
        (blocks(longest, keys), heads, len(bounds)),
        (q, k, lse.contiguous(), table, sums),
        (scale * LOG2_E.value, tokens, *q.stride()[1:3], *k.stride()[1:3]),
        (width, tiles.main, tiles.tail, keys, queries, alignment(q, k)),
    )
    return sums
