"""HoloV: spread the budget over the regions of an image by how much each has to tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..core import UsageError
from .base import VisualTokenPruner
from .budget import apportion, even_sizes, group_of_each, rank_in_group
from .cosine import pairwise_cosine
from .importance import required_importance
from .request import PruneRequest


@dataclass(frozen=True)
class HoloVOptions:
    """``chunks``, 1 or more, is the number of regions; ``beta``, 0 or more, the weight of variety.

    A span of fewer tokens than ``chunks`` has one region per token.
    """

    chunks: int = 16
    beta: float = 0.09

    def __post_init__(self) -> None:
        if self.chunks < 1:
            raise UsageError(f"chunks must be 1 or more, got {self.chunks!r}")
        if self.beta < 0:
            raise UsageError(f"beta must be 0 or more, got {self.beta!r}")


class HoloVPruner(VisualTokenPruner):
    """Region quotas by attention and variety, attention inside a region.

    Source: "Don't Just Chase Highlighted Tokens in MLLMs: Revisiting Visual Holistic Context
    Retention" (NeurIPS 2025). A span is cut into contiguous regions, bands in raster order. A
    region scores its mean attention plus ``beta`` times its mean variance of cosines, brought to
    the scale of attention over the whole span; the span's quota is shared out in proportion, and
    each region keeps its most attended tokens. What a full region cannot take goes to the others,
    where the published code loses it, so each span keeps exactly its own quota. Defaults: 16
    regions, beta 0.09. Cost: O(n^2 D / P) and 8 n^2 / P bytes for n tokens of width D in P regions,
    and one sort, whatever the quota: no sequential steps. Use it at high ratios on scenes whose
    meaning is spread out, with a visual engine that has importance output.

    Cosines accumulate in fp32; equal attention goes to the lower position.
    """

    Options = HoloVOptions
    needs_importance = True
    options: HoloVOptions

    def select(self, request: PruneRequest) -> Tensor:
        """Return the kept visual rows ``[k]`` int64, ascending.

        Raises:
            RequestError: the prompt has no importance.
        """
        embeds, importance = request.io.embeds, required_importance(request)  # [T,H], [T]
        sizes, scores = [], []
        for span in request.io.spans:
            rows = slice(span.start, span.end)
            sizes.append(even_sizes(len(span), min(self.options.chunks, len(span))))
            scores.append(
                region_scores(embeds[rows], importance[rows], sizes[-1], self.options.beta)
            )
        weights = iter(torch.cat(scores).tolist())  # waits for the device, once for all spans
        quotas = []
        for quota, regions in zip(request.quotas, sizes, strict=True):
            quotas += apportion(quota, [next(weights) for _ in regions], regions)
        visual = request.visual_positions  # [n]
        return visual[best_of_regions(importance[visual], [c for s in sizes for c in s], quotas)]


def region_scores(features: Tensor, attention: Tensor, sizes: list[int], beta: float) -> Tensor:
    """Score ``[P]`` fp32 of the consecutive regions, of ``sizes`` rows each, of one span.

    A row's cosine to itself counts as 0 in its variance, as published. Only the ratio of the scores
    matters, hence no constant factor on attention.

    Args:
        features: ``[n,D]``.
        attention: ``[n]`` fp32.
    """
    counts = torch.tensor(sizes, device=features.device)[:, None]  # [P,1]
    others = (counts - 1).clamp(min=1)
    inside = torch.arange(max(sizes), device=features.device) < counts  # [P,c]
    # Padding is zero rows: their cosines are 0, only the deviation from the mean must be masked.
    cosines = pairwise_cosine(_padded(features, sizes))  # [P,c,c]
    cosines.diagonal(dim1=-2, dim2=-1).zero_()
    mean = cosines.sum(dim=-1) / others  # [P,c]
    deviation = (cosines - mean[..., None]).mul_(inside[:, None])
    variance = deviation.square_().sum(dim=-1) / others  # [P,c]
    received = _padded(attention, sizes)  # [P,c]
    scale = attention.mean() / (variance.sum() / len(features) + 1e-6)
    return ((received + beta * scale * variance).sum(dim=-1, keepdim=True) / counts).squeeze(-1)


def _padded(rows: Tensor, sizes: list[int]) -> Tensor:
    """Consecutive regions of ``rows [n,...]`` as a batch ``[P,max(sizes),...]``, ended by zeros."""
    return pad_sequence(list(torch.split(rows, sizes)), batch_first=True)


def best_of_regions(attention: Tensor, sizes: Sequence[int], quotas: Sequence[int]) -> Tensor:
    """The ``quotas[p]`` best attended of each region's ``sizes[p]`` rows: ``[k]``, ascending."""
    region = group_of_each(sizes, attention.device)  # [n]
    quota = torch.tensor(quotas, device=attention.device)[region]  # [n]
    return (rank_in_group(attention, region) < quota).nonzero().flatten()
