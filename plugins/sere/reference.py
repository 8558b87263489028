"""The re-routing rule in torch operators: what every other form of ``SereRouting`` must compute.

SERE, section 4.1 of the production article: secondary experts of a decode step move to the most
similar expert that is primary for any token of the batch, so fewer experts' weights are read.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..experts.marks import marked_experts


def reroute(
    expert_ids: Tensor,  # [R,k] int64 or int32
    similarity: Tensor,  # [N,N] fp32
    protected: Tensor,  # [N] bool
    decode_rows: Tensor,  # [R] bool
    top_k: Tensor,  # [1] int64
    threshold: Tensor,  # [1] fp32
) -> tuple[Tensor, Tensor]:
    """Move the secondary experts of a step's decode rows to similar primary ones.

    An expert is primary if any decode row has it among its first ``top_k`` slots. Any other expert
    in use moves to the primary one that ``similarity`` puts nearest to it (its row; the lowest id
    among equals; NaN is no candidate), unless it is protected, or ``threshold > 0`` and the
    similarity is below it. Weights stay with their slots. Nothing moves where ``top_k <= 0`` (no
    expert is primary) or ``top_k >= k`` (all are).

    Args:
        expert_ids: slots in descending order of router score; see
            :func:`~edgevlm.plugins.sere.slots.sort_slots` for routers that return them unordered.
            An id outside ``0..N-1``, such as the sentinel ``N`` of a dropped slot, neither votes
            nor changes.
        decode_rows: other rows (prompt tokens, the padding of a CUDA graph) neither vote nor
            change.

    Returns:
        ids like ``expert_ids``, and ``[2]`` int64: how many distinct experts the decode rows use
        before and after. No operation waits for the device, so a CUDA graph can hold them.
    """
    slots = expert_ids.shape[1]
    experts = similarity.shape[0]
    ids = expert_ids.long()
    votes = decode_rows[:, None] & (ids >= 0) & (ids < experts)  # [R,k]
    column = torch.arange(slots, device=ids.device)
    index = ids.where(votes, experts)  # [R,k]; what has no vote is counted beyond the last expert
    primary = marked_experts(index.where(column < top_k, experts), experts)  # [N]

    candidates = similarity.where(primary & ~similarity.isnan(), -torch.inf)  # [N,N]
    best = candidates.amax(dim=1)  # [N]
    number = torch.arange(experts, device=ids.device)
    nearest = number.where(candidates == best[:, None], experts).amin(dim=1)
    stays = primary | protected | best.isneginf() | ((threshold > 0) & (best < threshold))
    target = number.where(stays, nearest)  # [N]

    routed = target[index.clamp(max=experts - 1)]  # [R,k]
    used = [marked_experts(taken.where(votes, experts), experts) for taken in (index, routed)]
    active = torch.stack([marks.sum() for marks in used])
    return routed.where(votes, ids).to(expert_ids.dtype), active
