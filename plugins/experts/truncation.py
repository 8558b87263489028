"""Fewer experts per token, without anything in their place: what re-routing is compared with."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...core import UsageError
from .marks import marked_experts


@dataclass(frozen=True)
class TruncationConfig:
    """Use only the first experts of each token, weights renormalised over them.

    Args:
        top_k: how many.
        prompts: also while prompts are read; otherwise in decode steps only.

    Raises:
        UsageError: ``top_k`` is no integer of at least 1.
    """

    top_k: int
    prompts: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.top_k, int) or isinstance(self.top_k, bool) or self.top_k < 1:
            raise UsageError(f"truncation: top_k must be an integer >= 1, got {self.top_k!r}")
        if not isinstance(self.prompts, bool):
            raise UsageError(f"truncation: prompts must be true or false, got {self.prompts!r}")


def first_slots(
    expert_ids: Tensor, expert_weights: Tensor, top_k: int, experts: int
) -> tuple[Tensor, Tensor]:
    """Ids and weights ``[R,k]`` with all slots but the first ``top_k`` dropped (N and 0).

    The weights that stay are scaled to the sum that all had.
    """
    dropped = torch.arange(expert_ids.shape[1], device=expert_ids.device) >= top_k  # [k]
    ids = expert_ids.masked_fill(dropped, experts)
    weights = expert_weights.float()
    kept = weights.masked_fill(dropped, 0)
    total = kept.sum(1, keepdim=True).clamp(min=1e-20)
    return ids, (kept * (weights.sum(1, keepdim=True) / total)).to(expert_weights.dtype)


def distinct_experts(expert_ids: Tensor, rows: Tensor, experts: int) -> Tensor:
    """``[]`` int64: how many experts ``expert_ids [R,k]`` name in the ``rows [R]`` that count."""
    return marked_experts(expert_ids.masked_fill(~rows[:, None], experts), experts).sum()
