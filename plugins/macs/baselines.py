"""Capacity-aware inference (CAI-MoE): limits that count tokens, in torch operators.

Token Drop keeps the tokens an expert scores highest. Expanded Drop lets every token also ask for
all experts of its own device first. ``token_drop`` is here once more, written apart from MACS, to
compare with: MACS with unit weights, no gain and no re-routing must do the same.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .admission import one_hot
from .capacity import Capacity, capacities, same_device
from .config import MacsConfig
from .entropy import UNIT
from .reference import Limited, slot_weights
from .report import measure


def keep_best(candidates: Tensor, scores: Tensor, count: Tensor) -> Tensor:
    """``[R,N]`` bool: the ``count`` candidates of each expert with the highest scores.

    Args:
        candidates: ``[R,N]`` bool.
        scores: ``[R,N]`` fp32; among equals the lower row is better.
        count: ``[]`` integer.
    """
    order = scores.where(candidates, -torch.inf).argsort(dim=0, descending=True, stable=True)
    place = torch.arange(len(scores), device=scores.device)[:, None].expand_as(order)
    rank = torch.empty_like(order).scatter_(0, order, place)
    return candidates & (rank < count)


def token_drop(
    config: MacsConfig,
    probabilities: Tensor,
    expert_ids: Tensor,
    expert_weights: Tensor,
    rows: Tensor,
    visual_rows: Tensor,
) -> Limited:
    """Each expert keeps its ``ceil(gamma * k * T / N)`` best tokens; see ``macs_capacity``."""
    return _drop(
        config, probabilities, expert_ids, expert_weights, rows, visual_rows, expanded=False
    )


def expanded_drop(
    config: MacsConfig,
    probabilities: Tensor,
    expert_ids: Tensor,
    expert_weights: Tensor,
    rows: Tensor,
    visual_rows: Tensor,
) -> Limited:
    """The same of a larger choice: the router's, and all experts of device ``config.device``.

    The result has as many more slots as the device has experts. Their weights are the experts'
    probabilities on the scale of the row's own weights; ``rerouted`` in the report counts them.
    """
    return _drop(
        config, probabilities, expert_ids, expert_weights, rows, visual_rows, expanded=True
    )


def _drop(
    config: MacsConfig,
    probabilities: Tensor,
    expert_ids: Tensor,
    expert_weights: Tensor,
    rows: Tensor,
    visual_rows: Tensor,
    *,
    expanded: bool,
) -> Limited:
    experts = probabilities.shape[1]
    settings = config.settings(probabilities.device)
    visual = rows & visual_rows
    units = torch.full(rows.shape, UNIT, device=rows.device)
    limits = _limits(config, units, rows, visual, experts, expert_ids.shape[1])
    ids = expert_ids.long().where(rows[:, None], experts)
    chosen = one_hot(ids, experts)
    device, own = same_device(experts, settings)
    candidates = chosen | (own & rows[:, None]) if expanded else chosen
    kept = keep_best(candidates, probabilities, limits.units[0] // UNIT)

    before, weights = expert_ids.long(), expert_weights
    stays = kept.gather(1, ids.clamp(max=experts - 1)) | (ids == experts)
    after = before.where(stays, experts)
    dropped = (before < experts) & (after == experts)
    rerouted = dropped.new_zeros(len(rows), 0)
    if expanded:
        extra = own_experts(experts, config)
        local = torch.arange(extra.start, extra.stop, device=ids.device)
        rerouted = (kept & ~chosen)[:, extra.start : extra.stop]
        after = torch.cat((after, local.where(rerouted, experts)), 1)
        before = torch.nn.functional.pad(before, (0, len(local)), value=experts)
        weights = torch.nn.functional.pad(weights, (0, len(local)))
    return Limited(
        after.to(expert_ids.dtype),
        slot_weights(probabilities, before, after, weights, settings),
        measure(
            chosen,
            kept,
            dropped=dropped,
            rerouted=rerouted,
            rows=rows,
            visual=visual,
            units=units,
            limits=limits,
            device=device,
        ),
    )


def own_experts(experts: int, config: MacsConfig) -> range:
    """Ids of the experts on the tokens' device."""
    first, after = (-(-(config.device + n) * experts // config.devices) for n in (0, 1))
    return range(first, after)


def _limits(
    config: MacsConfig, units: Tensor, rows: Tensor, visual: Tensor, experts: int, top_k: int
) -> Capacity:
    counted = MacsConfig(method="token_drop", capacity_factor=config.capacity_factor)
    groups = torch.zeros(experts, device=units.device)
    return capacities(units, rows, visual, groups, top_k, counted.settings(units.device))
