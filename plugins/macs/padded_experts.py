"""Expert products in buffers of fixed size, one per expert: two batched matrix products.

With a limit on the tokens of an expert every shape is known beforehand, whatever the routing: what
batched products and ahead-of-time engines want. The price is the rows nobody fills.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from .config import MacsConfig


def guaranteed_tokens(config: MacsConfig, rows: int, top_k: int, experts: int) -> int:
    """Tokens an expert takes at most from ``rows`` tokens under ``config``: a safe ``capacity``.

    Weights below 1 let an expert take more tokens than its capacity says, so only ``token_limit``
    bounds MACS, and nothing does where text always keeps its first expert; all rows then.
    """
    mean = rows * top_k / experts
    if config.method in ("token_drop", "expanded_drop"):
        return min(rows, math.ceil(config.capacity_factor * mean * (1 - 1e-6)))
    bounded = config.method == "macs" and config.token_limit > 0 and not config.keep_top1_text
    if not bounded:
        return rows
    return min(rows, max(1, math.ceil(config.token_limit * mean * (1 - 1e-6))))


def padded_experts(
    hidden: Tensor,
    expert_ids: Tensor,
    expert_weights: Tensor,
    gate_up: Tensor,
    down: Tensor,
    capacity: int,
) -> Tensor:
    """The weighted sum ``[R,H]`` of each row's experts, of which each computes ``capacity`` rows.

    No shape depends on the routing and nothing waits for the device. A row beyond an expert's
    ``capacity``, in the order of rows, goes without that expert; see :func:`guaranteed_tokens`.

    Args:
        hidden: ``[R,H]``.
        expert_ids: ``[R,k]`` int64; N marks a dropped slot.
        expert_weights: ``[R,k]``.
        gate_up: ``[N,H,2I]``.
        down: ``[N,I,H]``.
    """
    experts, size = gate_up.shape[0], hidden.shape[1]
    rows, slots = expert_ids.shape
    place = _places(expert_ids.flatten(), experts, capacity)  # [R*k]
    row = torch.arange(rows, device=hidden.device).repeat_interleave(slots)
    source = row.new_zeros(experts * capacity + 1).scatter_(0, place, row)[:-1]
    batch = hidden[source].view(experts, capacity, size)  # [N,C,H]
    gate, up = torch.bmm(batch, gate_up).chunk(2, dim=-1)  # [N,C,I] each
    out = hidden.new_empty(experts * capacity + 1, size)
    torch.bmm(F.silu(gate) * up, down, out=out[:-1].view(experts, capacity, size))
    out[-1] = 0  # where slots without a place look
    found = out[place].view(rows, slots, size)
    return torch.bmm(expert_weights[:, None].to(hidden.dtype), found)[:, 0]


def _places(ids: Tensor, experts: int, capacity: int) -> Tensor:
    """Where each slot's row goes among ``experts * capacity``; that number for nowhere."""
    order = ids.argsort(stable=True)
    starts = torch.searchsorted(ids[order], torch.arange(experts, device=ids.device))
    rank = torch.empty_like(order).scatter_(0, order, torch.arange(len(ids), device=ids.device))
    inside = ids.clamp(max=experts - 1)
    nth = rank - starts[inside]
    fits = (ids < experts) & (nth < capacity)
    return (inside * capacity + nth).where(fits, experts * capacity)
