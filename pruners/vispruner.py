"""VisPruner: keep the most attended visual tokens, then thin out the rest by similarity."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core import UsageError
from .base import VisualTokenPruner
from .budget import choose_in_spans
from .cosine import pairwise_cosine
from .importance import required_importance
from .request import PruneRequest

_LONGEST = 4096  # tokens compared with one another: two matrices of 64 MB


@dataclass(frozen=True)
class VisPrunerOptions:
    """``importance_ratio``, 0 to 1, is the part of the quota that goes to the most attended tokens.

    ``step``, 1 or more, is how many of the others are dropped between two looks at what is left.
    """

    importance_ratio: float = 0.5
    step: int = 8

    def __post_init__(self) -> None:
        if not 0 <= self.importance_ratio <= 1:
            raise UsageError(f"importance_ratio must be 0 to 1, got {self.importance_ratio!r}")
        if self.step < 1:
            raise UsageError(f"step must be 1 or more, got {self.step!r}")


class VisPruner(VisualTokenPruner):
    """Important tokens first, diverse tokens from what remains.

    Source: "Beyond Text-Visual Attention: Exploiting Visual Cues for Effective Token Pruning in
    VLMs" (ICCV 2025). In each span part of the quota goes to the tokens that receive most
    attention. The others, in order of attention, are dealt alternately into two hands; the tokens
    of the first that most resemble one of the second are dropped, a few per round, until the quota
    is met exactly. Defaults: half of the quota by importance, 8 dropped per round. Cost: O(n^2 D)
    once for n tokens of width D, then (n - k) / step sequential rounds of O(n^2) for a quota of k,
    in 8 n^2 bytes; a span of more than 4096 tokens is treated in bands of rows. Use it where both
    salient details and background matter, with a visual engine that has importance output; a larger
    ``step`` makes it faster on large images, a larger ``importance_ratio`` suits tiny quotas.

    Cosines accumulate in fp32; equal attention goes to the lower position, and of equally redundant
    tokens the less attended is dropped.
    """

    Options = VisPrunerOptions
    needs_importance = True
    options: VisPrunerOptions

    def select(self, request: PruneRequest) -> Tensor:
        """Return the kept visual rows ``[k]`` int64, span by span.

        Raises:
            RequestError: the prompt has no importance.
        """
        embeds, importance = request.io.embeds, required_importance(request)  # [T,H], [T]
        ratio, step = self.options.importance_ratio, self.options.step

        def choose(rows: slice, quota: int) -> Tensor:
            important = math.floor(quota * ratio + 1e-9)
            return important_and_diverse(embeds[rows], importance[rows], quota, important, step)

        return choose_in_spans(request, choose, _LONGEST)


def important_and_diverse(
    features: Tensor, importance: Tensor, count: int, important: int, step: int
) -> Tensor:
    """Return ``count`` rows of ``features [n,D]``, the first ``important`` of them by importance.

    Args:
        importance: ``[n]``.
        step: how many rows a round drops at most.
    """
    ranked = importance.argsort(descending=True, stable=True)  # [n]
    if important == count:
        return ranked[:count]
    rest = ranked[important:]
    similarity = pairwise_cosine(features)  # [n,n]
    while (surplus := important + rest.numel() - count) > 0:
        first, second = rest[::2], rest[1::2]
        redundancy = similarity[first[:, None], second].amax(dim=1)
        fewest = redundancy.argsort(stable=True)[: max(0, first.numel() - min(step, surplus))]
        # The next deal follows this order, the most redundant survivor in front.
        rest = torch.cat((first[fewest.flip(0)], second))
    return torch.cat((ranked[:important], rest))
