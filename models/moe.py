"""Qwen3-VL-MoE's feed-forward: a router and fused per-expert tensors.

Parameter names and layouts are those of the published checkpoints, which are used in place.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .config import MoeConfig
from .operators import TextOperators
from .routing import top_experts


class Experts(nn.Module):
    """The weights of all experts of one layer."""

    def __init__(self, hidden_size: int, config: MoeConfig) -> None:
        super().__init__()
        count, width = config.num_experts, config.intermediate_size
        self.gate_up_proj = nn.Parameter(torch.empty(count, hidden_size, 2 * width))  # [N,H,2I]
        self.down_proj = nn.Parameter(torch.empty(count, width, hidden_size))  # [N,I,H]


class MoeBlock(nn.Module):
    """Router and experts; where rows go, and the products themselves, are the host's."""

    def __init__(self, hidden_size: int, config: MoeConfig, layer: int) -> None:
        super().__init__()
        self.layer, self.top_k = layer, config.top_k
        self.gate = nn.Linear(hidden_size, config.num_experts, bias=False)
        self.experts = Experts(hidden_size, config)

    def forward(self, x: Tensor, ops: TextOperators) -> Tensor:
        hidden = x.flatten(0, 1)  # [R,H]
        routing = ops.route(hidden, top_experts(self.gate(hidden), self.top_k), self.layer)
        weights = self.experts
        out = ops.experts(hidden, routing, weights.gate_up_proj, weights.down_proj, self.layer)
        return out.view_as(x)
