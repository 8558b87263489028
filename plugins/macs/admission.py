"""Who an expert takes: its tokens in order, each one that still fits.

Source: capacity-aware inference (CAI-MoE) for the order by score; MACS states none.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .capacity import Capacity
from .config import PLACE, choice
from .entropy import UNIT


@dataclass(frozen=True)
class Loads:
    """What experts hold, one entry per expert: weight units and numbers of tokens."""

    units: list[int]
    tokens: list[int]

    def take(self, expert: int, units: int) -> None:
        """Add one token."""
        self.units[expert] += units
        self.tokens[expert] += 1


@dataclass(frozen=True)
class Room:
    """The limits as plain numbers."""

    units: list[int]
    tokens: int

    @classmethod
    def of(cls, capacity: Capacity) -> Room:
        return cls(capacity.units.tolist(), int(capacity.tokens))

    def fits(self, loads: Loads, expert: int, units: int) -> bool:
        """Whether ``expert`` can take one more token, of that weight."""
        return (
            loads.units[expert] + units <= self.units[expert] and loads.tokens[expert] < self.tokens
        )


def priorities(scores: Tensor, units: Tensor, settings: Tensor) -> Tensor:
    """What candidates are ordered by, descending: ``[R,N]`` fp32."""
    weighted = settings[PLACE["order"]] == choice("order", "weighted_score")
    return (scores * (units.float() / UNIT)[:, None]).where(weighted, scores)


def admit(
    chosen: Tensor,
    reserved: Tensor,
    first: Tensor,
    priority: Tensor,
    units: Tensor,
    room: Room,
) -> tuple[Tensor, Loads]:
    """Each expert takes what is reserved, then goes through the others in order.

    Args:
        chosen: ``[R,N]`` bool, who asks for whom.
        reserved: ``[R,N]`` bool, part of it: taken whatever the room.
        first: ``[R]`` bool, rows whose turn comes before that of all others.
        priority: ``[R,N]`` fp32; among equals the lower row is first.
        units: ``[R]`` int64.

    Returns:
        what is admitted, ``[R,N]`` bool, and the loads.
    """
    weight = units.tolist()
    experts = chosen.shape[1]
    loads = Loads([0] * experts, [0] * experts)
    admitted = reserved.clone()
    for row, expert in reserved.nonzero().tolist():
        loads.take(expert, weight[row])
    for expert in range(experts):
        for turn in (first, ~first):
            waiting = (chosen[:, expert] & ~reserved[:, expert] & turn).nonzero()[:, 0]
            order = priority[waiting, expert].argsort(descending=True, stable=True)
            for row in waiting[order].tolist():
                if room.fits(loads, expert, weight[row]):
                    loads.take(expert, weight[row])
                    admitted[row, expert] = True
    return admitted, loads


def one_hot(ids: Tensor, experts: int) -> Tensor:
    """``[R,N]`` bool of ``ids [R,k]`` int64; the id N counts for none."""
    marks = torch.zeros(len(ids), experts + 1, dtype=torch.bool, device=ids.device)
    return marks.scatter_(1, ids, True)[:, :experts]


def text_top1(expert_ids: Tensor, text: Tensor, experts: int) -> Tensor:
    """``[R,N]`` bool: the first expert of each text row."""
    return one_hot(expert_ids[:, :1].where(text[:, None], experts), experts)
