"""Contextual tokens: what was not important enough to keep, merged into a few that stand for it."""

from __future__ import annotations

import torch
from torch import Tensor

from .cosine import Directions

MERGE_RULES = ("mean", "sum")


def contextual(features: Tensor, count: int, rule: str) -> tuple[Tensor, Tensor, Tensor]:
    """Assign every one of ``m`` leftover tokens of one image to one of ``count`` targets.

    Targets are evenly spaced (every ``m // count``-th); every other token joins the target it
    resembles most by cosine, the first of equals.

    Args:
        features: ``[m,D]``, what is compared.
        count: 1 to ``m``.
        rule: ``mean`` averages a target with all that joined it, which keeps its scale; ``sum``
            adds their average to it, as the original does before its projector.

    Returns:
        The places of the targets, ``[count]`` int64, ascending; for each leftover token the place
        of its target, ``[m]`` int64 (a target's is its own), and its weight in that target's
        merged embedding, ``[m]`` fp32.
    """
    step = len(features) // count
    targets = torch.arange(count, device=features.device) * step  # [c]
    joined = Directions.of(features).cosine(targets).argmax(dim=0)  # [m]
    joined[: count * step : step] = torch.arange(count, device=features.device)
    size = torch.zeros(count, device=features.device).scatter_add_(
        0, joined, torch.ones(len(features), device=features.device)
    )  # [c] with the target itself
    if rule == "mean":
        return targets, targets[joined], 1 / size[joined]
    weights = 1 / (size - 1).clamp(min=1)[joined]
    weights[: count * step : step] = 1
    return targets, targets[joined], weights
