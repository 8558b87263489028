"""Which experts serve which modality, from how often each was chosen.

Source: MACS, section 3.3, has the three groups; where the borders are is a reconstruction.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...models import Routing


def expert_groups(counts: Tensor, threshold: float) -> Tensor:
    """Groups ``[L,N]`` fp32: +1 visual, -1 text, 0 shared.

    An expert's visual share is ``v / (v + t)``, where ``v`` is its part of all visual choices and
    ``t`` that of all text choices, so that how many of each there were does not count. It is a
    visual expert from ``0.5 + threshold``, a text expert down to ``0.5 - threshold``. An expert
    never chosen is shared.

    Args:
        counts: ``[L,2,N]`` int64, choices by visual and by text tokens.
    """
    totals = counts.sum(dim=2, keepdim=True).clamp(min=1)
    visual, text = (counts.double() / totals).unbind(1)  # [L,N] each
    used = visual + text > 0
    share = (visual / (visual + text)).where(used, 0.5)
    near = 1e-9  # of the border: counts with a share on it belong to the group
    visual_experts = used & (share >= 0.5 + threshold - near)
    text_experts = used & ~visual_experts & (share <= 0.5 - threshold + near)
    return visual_experts.float() - text_experts.float()


class ModalityCounter:
    """Counts choices by modality while prompts go through a model."""

    def __init__(self, layers: tuple[int, ...], experts: int) -> None:
        self._places = {layer: place for place, layer in enumerate(layers)}
        self.counts = torch.zeros(len(layers), 2, experts, dtype=torch.int64)

    def add(self, layer: int, routing: Routing, visual: Tensor) -> None:
        """Count the choices ``routing.ids [R,k]`` of one layer; ``visual [R]`` bool."""
        for modality, rows in enumerate((visual, ~visual)):
            ids = routing.ids[rows].flatten().cpu()
            self.counts[self._places[layer], modality] += ids.bincount(
                minlength=self.counts.shape[2]
            )
