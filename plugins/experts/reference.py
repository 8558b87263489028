"""``MoeExperts`` in plain torch: what every other form of the operator must compute."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def moe_experts(
    hidden: Tensor, expert_ids: Tensor, expert_weights: Tensor, gate_up: Tensor, down: Tensor
) -> Tensor:
    """The weighted sum of each row's experts: ``[R,H]`` of ``hidden``'s dtype.

    Slot ``j`` of row ``r`` adds ``w * (silu(x @ gate) * (x @ up)) @ down`` of expert
    ``expert_ids[r,j]``. Products are computed in the operands' dtype. A row's slots are added in
    fp32, and the sum is rounded once. The same expert may fill several slots of a row.

    One expert at a time is computed, for the rows that use it; others are never touched.

    Args:
        hidden: ``[R,H]``.
        expert_ids: ``[R,k]`` int64 or int32; N, the number of experts, marks a dropped slot, which
            adds nothing whatever its weight.
        expert_weights: ``[R,k]``.
        gate_up: ``[N,H,2I]``, the gate's columns before those of up.
        down: ``[N,I,H]``.
    """
    experts = gate_up.shape[0]
    total = torch.zeros(hidden.shape, dtype=torch.float32, device=hidden.device)
    for expert in torch.unique(expert_ids).tolist():
        if expert >= experts:
            continue
        rows, slots = torch.where(expert_ids == expert)
        gate, up = (hidden[rows] @ gate_up[expert]).chunk(2, dim=-1)  # [n,I] each
        out = (F.silu(gate) * up) @ down[expert]  # [n,H]
        weights = expert_weights[rows, slots].float()[:, None]
        total.index_add_(0, rows, out.float() * weights)
    return total.to(hidden.dtype)
