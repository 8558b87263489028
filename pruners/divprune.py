"""DivPrune: keep the visual tokens that are farthest from one another."""

from __future__ import annotations

import torch
from torch import Tensor

from .base import VisualTokenPruner
from .budget import choose_in_spans
from .cosine import Directions
from .request import PruneRequest

_BLOCK = 1024  # rows of similarities held at once


class DivPruner(VisualTokenPruner):
    """Max-min diversity of the kept tokens, on embeddings alone.

    Source: "DivPrune: Diversity-based Visual Token Pruning for Large Multimodal Models" (CVPR
    2025). In each span the token farthest from its nearest neighbour is kept first, then always the
    one farthest from all kept so far, distance being 1 - cosine; each span fills exactly its own
    quota. There are no options: the outcome depends on the image only, neither on the question nor
    on the visual engine's attention. Cost: O(n^2 D) once to find the first of n tokens of width D,
    then k - 1 sequential steps of O(n D) for a quota of k; memory O(n D). Use it at high ratios,
    where what remains must still cover the whole image, or where the visual engine has no
    importance output; at mild ratios `dart` is cheaper.

    Cosines accumulate in fp32; equal distances go to the lower position.
    """

    def select(self, request: PruneRequest) -> Tensor:
        """Return the kept visual rows ``[k]`` int64, span by span."""
        embeds = request.io.embeds  # [T,H]
        return choose_in_spans(request, lambda rows, quota: farthest(embeds[rows], quota))


def farthest(features: Tensor, count: int) -> Tensor:
    """Return ``count >= 1`` rows of ``features [n,D]``, in the order of picking: ``[count]``."""
    directions = Directions.of(features)
    pick = _nearest_other(directions).argmin(dim=0, keepdim=True)  # [1]
    picked = [pick]
    nearest = torch.full_like(directions.norms, -torch.inf)  # [n] cosine to the closest picked one
    for _ in range(count - 1):
        nearest = torch.maximum(nearest, directions.cosine(pick)[0])
        nearest.index_fill_(0, pick, torch.inf)  # never picked again: a maximum keeps it
        pick = nearest.argmin(dim=0, keepdim=True)
        picked.append(pick)
    return torch.cat(picked)


def _nearest_other(directions: Directions) -> Tensor:
    """Cosine ``[n]`` of each row to the most similar other row."""
    nearest = []
    for start in range(0, len(directions.rows), _BLOCK):
        block = directions.cosine(slice(start, start + _BLOCK))  # [b,n]
        block.diagonal(offset=start).fill_(-torch.inf)
        nearest.append(block.amax(dim=1))
    return torch.cat(nearest)
