"""A mixture of experts as the trainer computes it: all experts at once, and kept in use."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from edgevlm.models import Routing

_BALANCE = 0.01


def all_experts(hidden: Tensor, routing: Routing, gate_up: Tensor, down: Tensor) -> Tensor:
    """Two products over every expert, unused ones weighted 0; for small experts that is fastest.

    Args:
        hidden: ``[R,H]``.
        gate_up: ``[N,H,2I]``.
        down: ``[N,I,H]``.
    """
    count, size, width = gate_up.shape
    joined = gate_up.permute(1, 0, 2).reshape(size, count * width)  # [H,N*2I]
    gate, up = (hidden @ joined).view(-1, count, width).chunk(2, dim=-1)  # [R,N,I] each
    share = torch.zeros_like(routing.probabilities, dtype=gate.dtype)
    share = share.scatter(1, routing.ids, routing.weights.to(gate.dtype))  # [R,N]
    inner = F.silu(gate) * up * share[..., None]
    return inner.flatten(1) @ down.flatten(0, 1)


def balanced(routing: Routing) -> Routing:
    """The same routing; in the backward pass, experts used more than others become less likely.

    The penalty is that of Switch Transformers (arXiv 2101.03961, equation 4).
    """
    probabilities = routing.probabilities  # [R,N]
    count = probabilities.shape[1]
    used = torch.zeros_like(probabilities).scatter(1, routing.ids, 1.0)
    share = used.mean(0) / routing.ids.shape[1]  # [N], sums to 1
    penalty = _BALANCE * count * (share * probabilities.mean(0)).sum()
    return dataclasses.replace(routing, weights=_Penalised.apply(routing.weights, penalty))


class _Penalised(torch.autograd.Function):
    """Adds a scalar to the loss without passing it along."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, penalty: Tensor) -> Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        return gradient, torch.ones((), dtype=torch.float32, device=gradient.device)
