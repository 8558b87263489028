"""What one layer call did, as one fp32 tensor that every form fills alike."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from .capacity import Capacity
from .entropy import UNIT


@dataclass(frozen=True)
class MacsReport:
    """Counts and loads of one layer, over the rows that took part; the order is the tensor's.

    Loads are maxima over experts (or devices), raw ones in tokens, effective ones and capacities
    in tokens of weight 1. Means need no entry of their own before control: they are
    ``rows * k / N``, and for effective loads ``weight * k / N``.
    """

    rows: float = 0.0
    visual_rows: float = 0.0
    weight: float = 0.0  # of all rows
    visual_ratio: float = 0.0
    capacity_least: float = 0.0
    capacity_most: float = 0.0
    raw_before: float = 0.0
    raw_after: float = 0.0
    effective_before: float = 0.0
    effective_after: float = 0.0
    device_before: float = 0.0
    device_after: float = 0.0
    rerouted: float = 0.0
    dropped_visual: float = 0.0
    dropped_text: float = 0.0
    lost_rows: float = 0.0  # without any expert now
    over_capacity: float = 0.0  # at most so much, by text that always keeps its first expert

    @classmethod
    def read(cls, report: Tensor) -> MacsReport:
        """From the tensor; waits for its device."""
        return cls(*report.tolist())

    def summary(self, top_k: int, experts: int) -> dict[str, float]:
        """All entries, and how far the largest loads are above the mean ones."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        mean = self.rows * top_k / experts
        effective = self.weight * top_k / experts
        found["raw_imbalance_before"] = self.raw_before / mean if mean else 0.0
        found["raw_imbalance_after"] = self.raw_after / mean if mean else 0.0
        found["effective_imbalance_before"] = (
            self.effective_before / effective if effective else 0.0
        )
        found["effective_imbalance_after"] = self.effective_after / effective if effective else 0.0
        return found


ENTRIES = tuple(field.name for field in fields(MacsReport))


def measure(
    chosen: Tensor,
    after: Tensor,
    *,
    dropped: Tensor,
    rerouted: Tensor,
    rows: Tensor,
    visual: Tensor,
    units: Tensor,
    limits: Capacity,
    device: Tensor,
) -> Tensor:
    """The report tensor ``[len(ENTRIES)]`` fp32.

    Args:
        chosen, after: ``[R,N]`` bool, which experts a row taking part had and has.
        dropped, rerouted: ``[R,*]`` bool, slots.
        rows, visual: ``[R]`` bool, taking part, and the visual ones of them.
        units: ``[R]`` int64.
        device: ``[N]`` int64, of each expert.
    """
    raw = [held.sum(0) for held in (chosen, after)]  # [N] each
    effective = [(held * units[:, None]).sum(0) for held in (chosen, after)]
    on_device = [torch.zeros_like(load).index_add_(0, device, load) for load in raw]
    values = {
        "rows": rows.sum(),
        "visual_rows": visual.sum(),
        "weight": units.where(rows, 0).sum() / UNIT,
        "visual_ratio": limits.visual_ratio,
        "capacity_least": limits.units.amin() / UNIT,
        "capacity_most": limits.units.amax() / UNIT,
        "raw_before": raw[0].amax(),
        "raw_after": raw[1].amax(),
        "effective_before": effective[0].amax() / UNIT,
        "effective_after": effective[1].amax() / UNIT,
        "device_before": on_device[0].amax(),
        "device_after": on_device[1].amax(),
        "rerouted": rerouted.sum(),
        "dropped_visual": (dropped & visual[:, None]).sum(),
        "dropped_text": (dropped & ~visual[:, None]).sum(),
        "lost_rows": (chosen.any(1) & ~after.any(1)).sum(),
        "over_capacity": (effective[1] - limits.units).amax().clamp(min=0) / UNIT,
    }
    return torch.stack([values[name].float() for name in ENTRIES])
