"""Which experts are never replaced."""

from __future__ import annotations

import torch
from torch import Tensor

from ...core import UsageError


def protected_experts(similarity: Tensor, routed_mass: Tensor, count: int, rule: str) -> Tensor:
    """Choose the experts of one layer to protect.

    The production article protects 16 of 128 and does not say which; the rules are ours:
    ``least-replaceable`` takes those whose most similar other expert is least similar,
    ``routed-mass`` those with the largest sum of router weights over a set of tasks, ``union``
    both, so between ``count`` and twice as many. Equal experts go by the lower id.

    Args:
        similarity: ``[N,N]``.
        routed_mass: ``[N]``.

    Returns:
        ``[N]`` bool.

    Raises:
        UsageError: there is no such rule.
    """
    others = similarity.clone().fill_diagonal_(-torch.inf).amax(dim=1)  # [N]
    ranked = {"least-replaceable": [others], "routed-mass": [-routed_mass]}
    ranked["union"] = [others, -routed_mass]
    if rule not in ranked:
        raise UsageError(f"no rule {rule!r} to protect experts by; known: {', '.join(ranked)}")
    protected = torch.zeros(len(similarity), dtype=torch.bool)
    for value in ranked[rule]:
        protected[value.argsort(stable=True)[:count]] = True
    return protected
