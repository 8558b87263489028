"""The router of a mixture of experts: softmax, the best experts, their weights, in one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ....core.launch import Kernel, power_of_two
from ....models import Routing


@triton.jit
def _top_experts(
    logits,
    probabilities,
    ids,
    weights,
    EXPERTS: tl.constexpr,
    TOP_K: tl.constexpr,
    BLOCK: tl.constexpr,
    SLOTS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """One row per program, all of it in registers; of equal probabilities the lower id comes first.

    Next to no traffic: what takes time are ``TOP_K`` reductions, one after another.
    """
    if OVERLAP:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    row = tl.program_id(0).to(tl.int64)
    expert = tl.arange(0, BLOCK)
    there = expert < EXPERTS
    logit = tl.load(logits + row * EXPERTS + expert, mask=there, other=-float("inf"))
    logit = logit.to(tl.float32)
    share = tl.exp(logit - tl.max(logit, axis=0))
    share = share / tl.sum(share, axis=0)
    tl.store(probabilities + row * EXPERTS + expert, share, mask=there)
    left = tl.where(there, share, -1.0)
    slot = tl.arange(0, SLOTS)
    chosen = tl.zeros((SLOTS,), dtype=tl.int32)
    best = tl.zeros((SLOTS,), dtype=tl.float32)
    for place in tl.static_range(TOP_K):
        value, found = tl.max(left, axis=0, return_indices=True, return_indices_tie_break_left=True)
        chosen = tl.where(slot == place, found, chosen)
        best = tl.where(slot == place, value, best)
        left = tl.where(expert == found, -1.0, left)
    best = best / tl.sum(best, axis=0)
    used = slot < TOP_K
    tl.store(ids + row * TOP_K + slot, chosen.to(tl.int64), mask=used)
    tl.store(weights + row * TOP_K + slot, best, mask=used)


_KERNEL = Kernel(_top_experts, overlaps=True, num_warps=1)


def top_experts(logits: Tensor, top_k: int) -> Routing:
    """See :func:`edgevlm.models.top_experts`; ``logits [R,N]`` contiguous."""
    rows, experts = logits.shape
    probabilities = torch.empty(rows, experts, dtype=torch.float32, device=logits.device)
    ids = torch.empty(rows, top_k, dtype=torch.int64, device=logits.device)
    weights = torch.empty(rows, top_k, dtype=logits.dtype, device=logits.device)
    _KERNEL(
        (rows, 1, 1),
        (logits, probabilities, ids, weights),
        (),
        (experts, top_k, power_of_two(experts), power_of_two(top_k)),
    )
    return Routing(probabilities, ids, weights)
