"""``MacsCapacity`` in plain torch: what every other form of the operator must compute.

It says what is meant, one token at a time; :mod:`.limiting` picks what is fast.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .admission import Room, admit, one_hot, priorities, text_top1
from .capacity import capacities, same_device
from .config import PLACE, choice
from .entropy import UNIT, feature_entropy, images, weight_units, z_scores
from .report import measure
from .rerouting import Neighbourhood, reroute


@dataclass(frozen=True)
class Limited:
    """Slots after control: ``ids, weights [R,k]`` (N and 0 where dropped), and the report."""

    expert_ids: Tensor
    expert_weights: Tensor
    report: Tensor


def macs_capacity(
    hidden: Tensor,
    probabilities: Tensor,
    expert_ids: Tensor,
    expert_weights: Tensor,
    rows: Tensor,
    visual_rows: Tensor,
    groups: Tensor,
    settings: Tensor,
    similarity: Tensor | None = None,
) -> Limited:
    """Limit what each expert takes; see :class:`~edgevlm.plugins.macs.config.MacsConfig`.

    Args:
        hidden: ``[R,H]``, the features whose entropy is taken: the input of the MoE block, or
            embeddings of the vision tower.
        probabilities: ``[R,N]`` fp32, the router's softmax.
        expert_ids: ``[R,k]`` int64 or int32, in descending order of probability; the id N of a
            dropped slot stays.
        expert_weights: ``[R,k]``.
        rows: ``[R]`` bool, rows that take part: prompt tokens. Others keep their experts and count
            for nothing.
        visual_rows: ``[R]`` bool.
        groups: ``[N]`` fp32: +1 visual expert, -1 text expert, 0 shared.
        settings: see :meth:`~edgevlm.plugins.macs.config.MacsConfig.settings`.
        similarity: ``[N,N]`` fp32, for the option ``similarity: expert``.
    """
    rows, visual = _taking_part(rows, visual_rows, settings)
    units = _weights(hidden, visual, settings)
    return limit(
        probabilities, expert_ids, expert_weights, rows, visual, units, groups, settings, similarity
    )


def limit(
    probabilities: Tensor,
    expert_ids: Tensor,
    expert_weights: Tensor,
    rows: Tensor,
    visual: Tensor,
    units: Tensor,
    groups: Tensor,
    settings: Tensor,
    similarity: Tensor | None = None,
) -> Limited:
    """:func:`macs_capacity` with the rows' weights ``units [R]`` int64 given."""
    experts = probabilities.shape[1]
    limits = capacities(units, rows, visual, groups, expert_ids.shape[1], settings)
    room = Room.of(limits)
    text = rows & ~visual
    ids = expert_ids.long().where(rows[:, None], experts)  # [R,k]
    chosen = one_hot(ids, experts)
    reserved = text_top1(ids, text, experts) & (settings[PLACE["keep_top1_text"]] > 0)
    first = text & (settings[PLACE["order"]] == choice("order", "text_first"))
    priority = priorities(probabilities, units, settings)
    admitted, loads = admit(chosen, reserved, first, priority, units, room)
    target = torch.full_like(chosen, experts, dtype=torch.int64)
    if settings[PLACE["reroute"]] > 0:
        target = reroute(
            chosen & ~admitted,
            chosen,
            probabilities,
            units,
            loads,
            room,
            Neighbourhood.of(experts, settings, similarity),
            float(settings[PLACE["reroute_threshold"]]),
        )
    number = torch.arange(experts, device=ids.device)
    destination = number.where(admitted, target)  # [R,N]: of each pair the router chose
    live = ids < experts
    moved = destination.gather(1, ids.clamp(max=experts - 1)).where(live, expert_ids.long())
    weights = slot_weights(probabilities, expert_ids, moved, expert_weights, settings)
    report = measure(
        chosen,
        one_hot(moved.where(rows[:, None], experts), experts),
        dropped=live & (moved == experts),
        rerouted=live & (moved < experts) & (moved != ids),
        rows=rows,
        visual=visual,
        units=units,
        limits=limits,
        device=same_device(experts, settings)[0],
    )
    return Limited(moved.to(expert_ids.dtype), weights, report)


def slot_weights(
    probabilities: Tensor, before: Tensor, after: Tensor, weights: Tensor, settings: Tensor
) -> Tensor:
    """Weights ``[R,k]`` of the slots: as they were, but 0 where dropped.

    A slot with another expert gets the probability of that one, on the scale of the row's weights,
    where ``rerouted_weight`` says so. With ``renormalize`` the row's sum becomes what it was.
    """
    experts = probabilities.shape[1]
    was = weights.float()
    old, new = (
        probabilities.gather(1, ids.long().clamp(max=experts - 1)) for ids in (before, after)
    )
    live = before < experts
    scale = was.where(live, 0).sum(1) / old.where(live, 0).sum(1).clamp(min=1e-20)  # [R]
    by_target = settings[PLACE["rerouted_weight"]] == choice("rerouted_weight", "target")
    changed = (before != after) & by_target
    found = (new * scale[:, None]).where(changed, was).where(after < experts, 0)
    ratio = was.sum(1) / found.sum(1).clamp(min=1e-20)
    found = (found * ratio[:, None]).where(settings[PLACE["renormalize"]] > 0, found)
    touched = (before != after).any(1, keepdim=True)
    return found.where(touched, was).to(weights.dtype)


def _taking_part(rows: Tensor, visual_rows: Tensor, settings: Tensor) -> tuple[Tensor, Tensor]:
    visual = rows & visual_rows
    rows = rows & (settings[PLACE["method"]] != choice("method", "off"))
    text_only = ~visual.any() & (settings[PLACE["disable_when_text_only"]] > 0)
    rows = rows & ~text_only
    return rows, rows & visual


def _weights(hidden: Tensor, visual: Tensor, settings: Tensor) -> Tensor:
    by_image = settings[PLACE["zscore_scope"]] == choice("zscore_scope", "image")
    image = images(visual).where(by_image, 0)
    z = z_scores(feature_entropy(hidden), visual, image, settings[PLACE["epsilon"]])
    units = weight_units(z, visual, settings[PLACE["sensitivity"]])
    counted = settings[PLACE["method"]] == choice("method", "token_drop")
    return torch.full_like(units, UNIT).where(counted, units)
