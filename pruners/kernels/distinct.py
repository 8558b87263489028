"""Distinct tokens: how many groups of tokens that are alike each span has."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...core.launch import Kernel, power_of_two
from ..adaptive import ALIKE, MEAN_REMOVED, SAMPLE

_ALIKE = tl.constexpr(ALIKE)
_MEAN_REMOVED = tl.constexpr(MEAN_REMOVED)


@triton.jit
def _distinct(
    embeds,
    edges,
    shares,
    HIDDEN: tl.constexpr,
    SAMPLE: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """Compare ``SAMPLE`` tokens of one span with one another and count their groups.

    Grid: (spans). A program reads 655 KB at hidden 2,560 in bf16, once. For one image that leaves
    all multiprocessors but one idle; to use more would take a second launch, to add up, and the
    host waits for launches more than for this. Divisions and roots round as on a CPU; only the
    order of sums is another, so a pair whose cosine is 0.9 but for rounding may count otherwise.
    """
    span = tl.program_id(0)
    start = tl.load(edges + span * 2)
    size = tl.load(edges + span * 2 + 1)
    count = tl.minimum(size, SAMPLE)
    step = tl.arange(0, SAMPLE)
    valid = step < count
    row = start + (2 * tl.minimum(step, count - 1) + 1) * size // (2 * count)
    column = tl.arange(0, DEPTH)
    at = embeds + row.to(tl.int64)[:, None] * HIDDEN + column[None, :]

    products = tl.zeros((SAMPLE, SAMPLE), tl.float32)
    for first in tl.range(0, HIDDEN, DEPTH):
        x = tl.load(at + first, mask=(first + column < HIDDEN)[None, :], other=0.0)
        products = tl.dot(x, tl.trans(x), products, input_precision="ieee")

    share = tl.div_rn(valid.to(tl.float32), count.to(tl.float32))
    with_mean = tl.sum(products * share[None, :], axis=1)
    of_mean = tl.sum(with_mean * share, axis=0)
    products -= _MEAN_REMOVED * (with_mean[:, None] + with_mean[None, :])
    products += _MEAN_REMOVED * _MEAN_REMOVED * of_mean
    squares = tl.sum(tl.where(step[:, None] == step[None, :], products, 0.0), axis=1)
    norm = tl.sqrt_rn(tl.maximum(squares, 0.0))
    alike = products >= _ALIKE * norm[:, None] * norm[None, :]
    group = tl.sum((alike & valid[None, :]).to(tl.int32), axis=1)  # NaN is like nothing
    group = tl.maximum(group, 1).to(tl.float32)
    tl.store(shares + span, tl.sum(tl.div_rn(share, group), axis=0))


_BYTES = 128  # of each row at a time: 64 KB on their way in four stages
_KERNEL = Kernel(_distinct, num_warps=8, num_stages=4)


def count_distinct(embeds: Tensor, edges: Tensor) -> Tensor:
    """What :func:`~edgevlm.pruners.adaptive.distinct_shares` finds: ``[S]`` fp32.

    Args:
        embeds: ``[T,H]``.
        edges: ``[S,2]`` int32 on the same device: start and size of each span.
    """
    spans, hidden = len(edges), embeds.shape[1]
    shares = torch.empty(spans, dtype=torch.float32, device=embeds.device)
    depth = min(_BYTES // embeds.element_size(), max(16, power_of_two(hidden)))
    _KERNEL((spans, 1, 1), (embeds.contiguous(), edges, shares), (), (hidden, SAMPLE, depth))
    return shares
