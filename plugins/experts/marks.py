"""Which experts are named by a set of slots."""

from __future__ import annotations

import torch
from torch import Tensor


def marked_experts(ids: Tensor, experts: int) -> Tensor:
    """``[N]`` bool: which experts ``ids`` names; the id ``experts`` counts for none."""
    marks = torch.zeros(experts + 1, dtype=torch.bool, device=ids.device)
    return marks.index_fill_(0, ids.flatten(), True)[:experts]
