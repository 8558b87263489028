"""How much each expert takes.

Source: MACS, sections 3.1 and 3.3: equation 3, the effective visual ratio of equation 7 and
``C_j = C_base * (1 + gain * m_j * (R_v - 0.5))``, then a least value.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .config import PLACE, choice
from .entropy import UNIT

_UNBOUNDED = 2.0**31
_SHORT = 1 - 1e-6  # a product meant to be whole is not pushed over by its last bit


@dataclass(frozen=True)
class Capacity:
    """Limits of one layer call. Loads compare with ``units``, numbers of tokens with ``tokens``."""

    visual_ratio: Tensor  # [] fp32
    base: Tensor  # [] fp32, in tokens
    units: Tensor  # [N] int64
    tokens: Tensor  # [] int64


def capacities(
    units: Tensor, rows: Tensor, visual: Tensor, groups: Tensor, top_k: int, settings: Tensor
) -> Capacity:
    """The limits that follow from what the rows weigh.

    Args:
        units: ``[R]`` int64, weights of the rows.
        rows: ``[R]`` bool, those that take part.
        visual: ``[R]`` bool, the visual ones of them.
        groups: ``[N]`` fp32: +1 visual expert, -1 text expert, 0 shared.
    """
    experts = len(groups)
    total = units.where(rows, 0).sum()
    ratio = units.where(visual, 0).sum().float() / total.clamp(min=1).float()
    mean_load = rows.sum().float() * top_k / experts
    effective = total.float() / UNIT * top_k / experts
    by_weight = settings[PLACE["capacity_basis"]] == choice("capacity_basis", "effective")
    base = settings[PLACE["capacity_factor"]] * effective.where(by_weight, mean_load)
    adapted = base * (1 + settings[PLACE["gain"]] * groups * (ratio - 0.5))
    adapted = adapted.maximum(settings[PLACE["minimum_capacity"]])
    whole = (base * _SHORT).ceil().minimum(rows.sum().float())
    counted = settings[PLACE["method"]] == choice("method", "token_drop")
    capacity = whole.where(counted, adapted).clamp(max=_UNBOUNDED)
    factor = settings[PLACE["token_limit"]]
    limit = (factor * mean_load * _SHORT).ceil().clamp(1, _UNBOUNDED)
    return Capacity(
        ratio,
        base,
        (capacity * UNIT + 0.5).floor().long(),
        limit.where(factor > 0, _UNBOUNDED).long(),
    )


def same_device(experts: int, settings: Tensor) -> tuple[Tensor, Tensor]:
    """The device ``[N]`` int64 of each expert, and ``[N]`` bool: it is the tokens' own."""
    devices = settings[PLACE["devices"]].long()
    device = torch.arange(experts, device=settings.device) * devices // experts
    return device, device == settings[PLACE["device"]].long()
