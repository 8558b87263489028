"""DART: drop the visual tokens that duplicate others, judged on the input embeddings."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core import RequestError, UsageError, VisualSpan
from . import kernels
from .base import VisualTokenPruner
from .layout import Layout
from .request import PruneRequest
from .selection import keeps_quotas

_MAX_PIVOTS = 64
_MIN_NORM_PRODUCT = 1e-8


@dataclass(frozen=True)
class DartOptions:
    """How many tokens of each kind the others are compared with.

    Each count is 0 to 64, their sum 1 to 64.
    """

    pivot_image_tokens: int = 4
    pivot_text_tokens: int = 4

    def __post_init__(self) -> None:
        counts = (self.pivot_image_tokens, self.pivot_text_tokens)
        if min(counts) < 0 or not 1 <= sum(counts) <= _MAX_PIVOTS:
            raise UsageError(
                "pivot_image_tokens and pivot_text_tokens must each be 0 to "
                f"{_MAX_PIVOTS} and together 1 to {_MAX_PIVOTS}, got {counts[0]} and {counts[1]}"
            )


class DartPruner(VisualTokenPruner):
    """Duplication-aware reduction of tokens, on embeddings.

    Source: "Stop Looking for Important Tokens in Multimodal Language Models: Duplication Matters
    More", which compares keys and hidden states after decoder layer 2. Here the assembled input
    embeddings are compared instead, so nothing inside the engine need be observable and every
    decoder layer runs on the shorter prompt. Each span keeps exactly its own quota: the pivots of
    the span (largest L1 norm) stay, then each pivot in turn adds the tokens least similar to it
    (smallest cosine). Text pivots, shared by all spans, take part in comparing only. Defaults: a
    quarter of the visual tokens removed, 4 image and 4 text pivots. Cost: two passes over the
    embeddings and P short sorts per span, with P the number of pivots; on CUDA with Triton, a few
    kernels that the host does not wait for. Use it as the general choice at mild ratios, 0.25 to
    0.5; dense text (documents, charts) suffers first beyond that. With ``pivot_text_tokens=0`` the
    outcome for an image does not depend on the question.

    Norms and similarities accumulate in fp32; equal values go to the lower position.
    """

    Options = DartOptions
    options: DartOptions

    @keeps_quotas
    def select(self, request: PruneRequest) -> Tensor:
        """Return the kept visual rows ``[k]`` int64, ascending.

        Raises:
            RequestError: no pivot at all: the prompt has no text and image pivots are off.
        """
        embeds, norms, layout = request.io.embeds, request.norms, request.layout
        image, text = self.options.pivot_image_tokens, self.options.pivot_text_tokens
        if not image and not layout.text_tokens:
            raise RequestError(
                "dart has no pivot: the prompt has no text and pivot_image_tokens is 0; set it to "
                "1 or more"
            )
        if not kernels.usable(embeds):
            return torch_rows(embeds, norms.l1, norms.l2, layout, image, text)
        from .kernels.dart import dart_rows
        from .kernels.places import place_table

        table = place_table(layout, embeds.device)
        return dart_rows(embeds, norms.l1, norms.l2, layout, table, image, text)


def torch_rows(
    embeds: Tensor, l1: Tensor, l2: Tensor, layout: Layout, image_pivots: int, text_pivots: int
) -> Tensor:
    """The kept visual rows ``[k]`` int64, ascending: ``layout.counts[s]`` of span ``s``.

    Args:
        embeds: ``[T,H]``.
        l1, l2: ``[T]`` fp32, norms of its rows.
    """
    shared = _largest(l1, layout.text_rows(embeds.device), text_pivots)
    kept = []
    for span, quota in zip(layout.spans, layout.counts, strict=True):
        rows = torch.arange(span.start, span.end, device=embeds.device)  # [n]
        image = _largest(l1, rows, min(image_pivots, quota))
        pivots = torch.cat((image, shared))  # [P]
        cosine = _cosine(embeds, l2, pivots, span)  # [P,n]
        retained = _grow(cosine, image - span.start, quota)  # [n]
        kept.append(span.start + retained.nonzero_static(size=quota).flatten())
    return torch.cat(kept)


def _largest(values: Tensor, rows: Tensor, count: int) -> Tensor:
    """The ``count`` of ``rows`` with the largest ``values``, descending."""
    order = values[rows].sort(descending=True, stable=True).indices
    return rows[order[:count]]


def _cosine(embeds: Tensor, l2: Tensor, pivots: Tensor, span: VisualSpan) -> Tensor:
    """Cosine ``[P,n]`` fp32 of each pivot to each token of the span; 0 for a zero row."""
    dots = embeds[pivots].float() @ embeds[span.start : span.end].float().T  # [P,n]
    norms = l2[pivots, None] * l2[None, span.start : span.end]  # [P,n]
    return dots / norms.clamp(min=_MIN_NORM_PRODUCT)


def _grow(cosine: Tensor, pivots: Tensor, quota: int) -> Tensor:
    """Which of a span's ``n`` tokens are retained: ``pivots``, then what is least like each.

    Args:
        cosine: ``[P,n]``, one row per pivot in the order of their turns.
        pivots: the span's own pivots, as columns of ``cosine``.
        quota: how many are retained in all; each pivot in turn adds an equal share of the rest.
    """
    retained = torch.zeros(cosine.shape[1], dtype=torch.bool, device=cosine.device)  # [n]
    retained.index_fill_(0, pivots, True)
    missing = quota - pivots.numel()
    for turn, similarity in enumerate(cosine):
        share = math.ceil(missing / (cosine.shape[0] - turn))
        free = similarity.masked_fill(retained, torch.inf)  # [n]
        retained.index_fill_(0, free.sort(stable=True).indices[:share], True)
        missing -= share
    return retained
