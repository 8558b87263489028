"""SCOPE: keep the visual tokens that are important and cover the others."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core import UsageError
from .base import VisualTokenPruner
from .budget import choose_in_spans
from .cosine import pairwise_cosine
from .importance import required_importance
from .request import PruneRequest

_COMBINE = ("multiply", "add")
_MAX_ALPHA = 4.0
_LONGEST = 4096  # tokens compared with one another: two matrices of 64 MB


@dataclass(frozen=True)
class ScopeOptions:
    """How importance weighs in.

    ``alpha`` is its exponent, 0 to 4; at 0 only coverage counts and no importance is needed.
    ``combine`` says whether the coverage gained is multiplied by the result or added to it.
    """

    alpha: float = 1.0
    combine: str = "multiply"

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= _MAX_ALPHA:
            raise UsageError(f"alpha must be 0 to {_MAX_ALPHA:g}, got {self.alpha!r}")
        if self.combine not in _COMBINE:
            raise UsageError(f"combine must be one of {', '.join(_COMBINE)}, got {self.combine!r}")


class ScopePruner(VisualTokenPruner):
    """Saliency-weighted coverage, greedily.

    Source: "SCOPE: Saliency-Coverage Oriented Token Pruning for Efficient Multimodal LLMs" (arXiv
    2510.24214). A token is covered as far as its cosine to the most similar kept token; each step
    keeps the token whose gain in coverage, summed over its span, is largest after weighting by its
    importance. Each span fills exactly its own quota. Defaults: alpha 1, multiply. Cost: O(n^2 D)
    once for n tokens of width D, then k sequential steps of O(n^2) for a quota of k, in 8 n^2
    bytes; a span of more than 4096 tokens is cut into bands of rows, each covering itself only. Use
    it on a GPU where accuracy at high ratios matters more than a few milliseconds, and the visual
    engine has importance output; with ``alpha=0`` it runs on embeddings alone.

    Similarities accumulate in fp32; equal scores go to the lower position.
    """

    Options = ScopeOptions
    needs_importance = True
    options: ScopeOptions

    def select(self, request: PruneRequest) -> Tensor:
        """Return the kept visual rows ``[k]`` int64, span by span.

        Raises:
            RequestError: ``alpha`` is not 0 and the prompt has no importance.
        """
        embeds = request.io.embeds  # [T,H]
        if self.options.alpha:
            weight = required_importance(request) ** self.options.alpha  # [T]
        else:
            weight = torch.ones(len(embeds), device=embeds.device)

        def choose(rows: slice, quota: int) -> Tensor:
            return cover(embeds[rows], weight[rows], quota, add=self.options.combine == "add")

        return choose_in_spans(request, choose, _LONGEST)


def cover(features: Tensor, weight: Tensor, count: int, *, add: bool = False) -> Tensor:
    """Return ``count`` rows of ``features [n,D]`` in the order of picking: ``[count]`` int64.

    Args:
        weight: ``[n]`` fp32, multiplied with the coverage gained or, if ``add``, added to it.
    """
    similarity = pairwise_cosine(features)  # [n,n]
    picked = torch.empty(count, dtype=torch.int64, device=features.device)
    covered = torch.zeros_like(weight)  # [n] cosine to the closest picked row, at least 0
    allowed = torch.zeros_like(weight)  # [n] -inf once picked
    gains = torch.empty_like(similarity)
    for step in range(count):
        gain = torch.sub(similarity, covered, out=gains).clamp_(min=0).sum(dim=1)  # [n]
        score = gain + weight if add else gain * weight
        pick = (score + allowed).argmax(dim=0, keepdim=True)  # [1]
        picked[step : step + 1] = pick
        allowed.index_fill_(0, pick, -torch.inf)
        covered = torch.maximum(covered, similarity[pick][0])
    return picked
