"""Stride: keep visual tokens at even distances, whatever they show."""

from __future__ import annotations

import torch
from torch import Tensor

from .base import VisualTokenPruner
from .request import PruneRequest
from .selection import keeps_quotas


class StridePruner(VisualTokenPruner):
    """Evenly spaced tokens of each span.

    Source: none needed; the baseline next to `random`, close to merely showing a smaller image. A
    span's tokens lie in raster order of the merged grid, row by row; it is cut into as many equal
    intervals as its quota, and the token in the middle of each stays. A stride that divides the
    width of the grid therefore keeps whole columns. There are no options. Cost: O(k) for a quota of
    k. Use it in accuracy tables, and where every region must survive at no cost at all.
    """

    @keeps_quotas
    def select(self, request: PruneRequest) -> Tensor:
        """Return the kept visual rows ``[k]`` int64, ascending."""
        device = request.io.embeds.device
        spans = zip(request.io.spans, request.quotas, strict=True)
        return torch.cat(
            [span.start + evenly_spaced(len(span), quota, device) for span, quota in spans]
        )


def evenly_spaced(tokens: int, count: int, device: torch.device) -> Tensor:
    """The middles of ``count`` equal intervals of ``0..tokens-1``: ``[count]`` int64, ascending."""
    return (2 * torch.arange(count, device=device) + 1) * tokens // (2 * count)
