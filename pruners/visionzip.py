"""VisionZip: keep the most attended visual tokens, from one budget shared by all images."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core import UsageError
from .base import VisualTokenPruner
from .budget import apportion, group_of_each, rank_in_group
from .config import VisualPrunerConfig
from .contextual import MERGE_RULES, contextual
from .importance import required_importance
from .request import PruneRequest
from .selection import MergeWeights, Selection

_NORMS = ("sum", "mean", "zscore")


@dataclass(frozen=True)
class VisionZipOptions:
    """How the shared budget is filled.

    ``min_per_image``, 1 or more, is what each image keeps of its best in any case. ``score_norm``
    makes scores of several images comparable. ``sum`` takes them as they are: attention received,
    summed over the image's own queries, averages the same in every image, so what wins is
    concentration. ``mean`` divides them by the image's size, and is a trap: the scores of an image
    then add up to the same total whatever its size, and small images win the budget. ``zscore``
    takes the distance from the image's mean in its own standard deviations.

    ``contextual_ratio``, from 0 to less than what is kept, is the fraction of *all* visual tokens
    that become contextual: part of the kept ones, merged by ``merge`` (``mean`` or ``sum``) from
    those that would be dropped.
    """

    min_per_image: int = 1
    score_norm: str = "sum"
    contextual_ratio: float = 0.0
    merge: str = "mean"

    def __post_init__(self) -> None:
        if self.min_per_image < 1:
            raise UsageError(f"min_per_image must be 1 or more, got {self.min_per_image!r}")
        for name, legal in (("score_norm", _NORMS), ("merge", MERGE_RULES)):
            if (value := getattr(self, name)) not in legal:
                raise UsageError(f"{name} must be one of {', '.join(legal)}, got {value!r}")
        if not 0 <= self.contextual_ratio < 1:
            raise UsageError(
                f"contextual_ratio must be 0 to less than 1, got {self.contextual_ratio!r}"
            )


class VisionZipPruner(VisualTokenPruner):
    """The most attended tokens of the whole prompt.

    Source: "VisionZip: Longer is Better but Not Necessary in Vision Language Models" (CVPR 2025),
    whose importance without a class token is the attention a token receives. Here all images and
    frames of a prompt share one budget, ``round(kept fraction * visual tokens)``: each keeps its
    ``min_per_image`` best, and the best of all fill the rest, so an image with nothing to look at
    gives its share away. Optionally the rest of each image is merged into a few contextual tokens,
    never across images. Defaults: score as delivered, 1 per image, no contextual tokens. Cost: two
    sorts of n tokens, and O(m c D) per image where m leftovers join c contextual tokens of width D.
    Use it for many images at mild ratios, 0.3 to 0.4, with a visual engine that has importance
    output; beyond 0.5 it loses what is small and spread out, dense text above all.

    Equal scores go to the lower position.
    """

    Options = VisionZipOptions
    needs_importance = True
    options: VisionZipOptions

    def __init__(self, config: VisualPrunerConfig) -> None:
        super().__init__(config)
        kept = 1 - config.largest_ratio
        if self.options.contextual_ratio >= kept:
            raise UsageError(
                f"visual pruner {config.algorithm!r}: contextual_ratio must be less than the "
                f"fraction kept at least, {kept:g}, got "
                f"{self.options.contextual_ratio!r}"
            )

    def select(self, request: PruneRequest) -> Selection:
        """Return the kept visual rows, with the merge that makes some of them contextual.

        Where the guaranteed tokens take the whole budget, contextual tokens give way.

        Raises:
            RequestError: the prompt has no importance.
        """
        sizes = [len(span) for span in request.io.spans]
        tokens = sum(sizes)
        guaranteed = sum(min(size, self.options.min_per_image) for size in sizes)
        budget = max(guaranteed, round((1 - request.ratio) * tokens))
        merged = min(round(self.options.contextual_ratio * tokens), budget - guaranteed)

        visual = request.visual_positions  # [n]
        scores = comparable(
            required_importance(request)[visual], sizes, self.options.score_norm
        )  # [n]
        image = group_of_each(sizes, visual.device)  # [n]
        best = dominant(scores, image, budget - merged, self.options.min_per_image)
        if not merged:
            return Selection(visual[best])
        left = torch.ones_like(image, dtype=torch.bool).index_fill_(0, best, False)  # [n]
        leftovers = torch.bincount(image[left], minlength=len(sizes)).tolist()
        kept, terms = [visual[best]], []
        sources = torch.split(visual[left], leftovers)
        for source, share in zip(sources, apportion(merged, leftovers, leftovers), strict=True):
            if share:
                embeds = request.io.embeds[source]
                targets, joined, weights = contextual(embeds, share, self.options.merge)
                kept.append(source[targets])
                terms.append((source[joined], source, weights))
        merge = MergeWeights(*(torch.cat(parts) for parts in zip(*terms, strict=True)))
        return Selection(torch.cat(kept), merge)


def comparable(importance: Tensor, sizes: list[int], norm: str) -> Tensor:
    """Scores ``[n]`` of consecutive images, of ``sizes`` tokens each, on one scale."""
    if norm == "sum":
        return importance
    images = torch.split(importance.double(), sizes)  # so that equal tokens deviate by exactly 0
    if norm == "mean":
        return torch.cat([scores / len(scores) for scores in images])
    deviations = [scores - scores.mean() for scores in images]
    return torch.cat([d / d.square().mean().sqrt().clamp(min=1e-12) for d in deviations])


def dominant(scores: Tensor, image: Tensor, count: int, min_per_image: int) -> Tensor:
    """Return ``count`` of ``scores [n]``: ``min_per_image`` of each image, then the largest.

    Args:
        image: ``[n]`` int64, ascending: the image of each token.
    """
    guaranteed = rank_in_group(scores, image) < min_per_image  # [n]
    ranked = scores.masked_fill(guaranteed, torch.inf).argsort(descending=True, stable=True)
    return ranked[:count]
