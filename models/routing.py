"""Which experts each row goes to, and with what weight."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Routing:
    """The router's decision for ``R`` rows over ``N`` experts, ``k`` slots each.

    ``probabilities`` are the router's own and never change; ``ids`` come in descending order of
    them. Id ``N`` stands for a dropped slot, whose weight is 0.
    """

    probabilities: Tensor  # [R,N] fp32
    ids: Tensor  # [R,k] int64
    weights: Tensor  # [R,k] dtype of the hidden states


def top_experts(logits: Tensor, top_k: int) -> Routing:
    """Softmax over all experts, the ``top_k`` best, their weights renormalised to sum to 1.

    Args:
        logits: ``[R,N]``; the weights get its dtype.
    """
    probabilities = torch.softmax(logits, dim=-1, dtype=torch.float32)  # [R,N]
    best, ids = probabilities.topk(top_k, dim=-1)  # [R,k] each
    weights = best / best.sum(dim=-1, keepdim=True)
    return Routing(probabilities, ids, weights.to(logits.dtype))
