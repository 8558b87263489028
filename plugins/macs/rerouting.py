"""Where a token goes that its expert has no room for: to another one nearby, or nowhere.

Source: MACS, section 3.4 as summarised in its figure 1; the rule itself is a reconstruction.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .admission import Loads, Room
from .capacity import same_device
from .config import PLACE, choice


@dataclass(frozen=True)
class Neighbourhood:
    """Which experts may stand in for which, and how alike they are."""

    device: list[int]  # of each expert
    own: list[bool]  # whether that is the tokens' device
    by_source: bool
    similarity: Tensor | None  # [N,N] fp32; None: by the router

    @classmethod
    def of(cls, experts: int, settings: Tensor, similarity: Tensor | None) -> Neighbourhood:
        device, own = same_device(experts, settings)
        by_source = int(settings[PLACE["locality"]]) == choice("locality", "source")
        alike = int(settings[PLACE["similarity"]]) == choice("similarity", "expert")
        return cls(device.tolist(), own.tolist(), by_source, similarity if alike else None)

    def near(self, expert: int) -> list[int]:
        """Experts that may take over from ``expert``."""
        if self.by_source:
            return [other for other, own in enumerate(self.own) if own]
        return [other for other, d in enumerate(self.device) if d == self.device[expert]]


def reroute(
    overflow: Tensor,
    chosen: Tensor,
    probabilities: Tensor,
    units: Tensor,
    loads: Loads,
    room: Room,
    near: Neighbourhood,
    threshold: float,
) -> Tensor:
    """One overflowing pair after another looks for the best expert with room.

    Pairs come in order of descending probability, then row, then expert. The best is the one the
    router gives the highest probability, or the most similar one; the lower id among equals. It
    is none of the row's own choices and none the row has moved to before. If its probability is
    below ``threshold`` times that of the full expert, the pair is dropped.

    Args:
        overflow: ``[R,N]`` bool, what was not admitted.
        chosen: ``[R,N]`` bool, what the router chose.
        probabilities: ``[R,N]`` fp32.
        loads: what was admitted; grows.

    Returns:
        ``[R,N]`` int64: the new expert of each overflowing pair; N where it is dropped, and
        wherever there is no such pair.
    """
    experts = overflow.shape[1]
    target = torch.full(overflow.shape, experts, dtype=torch.int64, device=overflow.device)
    taken = chosen.tolist()
    weight = units.tolist()
    scores, least = probabilities.tolist(), (probabilities * threshold).tolist()
    similarity = None if near.similarity is None else near.similarity.tolist()
    nearby = [near.near(expert) for expert in range(experts)]
    pairs = overflow.nonzero()
    order = probabilities[pairs[:, 0], pairs[:, 1]].argsort(descending=True, stable=True)
    for row, expert in pairs[order].tolist():
        liking = scores[row] if similarity is None else similarity[expert]
        candidates = [
            other
            for other in nearby[expert]
            if not taken[row][other] and room.fits(loads, other, weight[row])
        ]
        if not candidates:
            continue
        best = max(candidates, key=liking.__getitem__)  # the first of equals
        if scores[row][best] >= least[row][expert]:
            loads.take(best, weight[row])
            taken[row][best] = True
            target[row, expert] = best
    return target
