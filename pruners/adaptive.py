"""Choosing how much to remove from what an image contains: ``reduction_ratio: "auto"``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core import VisualSpan
from . import kernels

SAMPLE = 128  # tokens of an image that are compared with one another
ALIKE = 0.9  # the cosine from which on two tokens count as the same
# Not all of the mean is taken away, so that tokens which differ by rounding alone stay alike.
MEAN_REMOVED = 0.99


@dataclass(frozen=True)
class ImageBudget:
    """What was measured of one image or frame pair, and the ratio chosen for it."""

    distinct: float  # share of its tokens that say something of their own, above 0 and up to 1
    reduction_ratio: float

    def to_json(self) -> dict[str, Any]:
        """Return plain values, rounded to what they are worth."""
        return {
            "distinct": round(self.distinct, 4),
            "reduction_ratio": round(self.reduction_ratio, 4),
        }


def adapt(
    embeds: Tensor, spans: Sequence[VisualSpan], lowest: float, highest: float
) -> tuple[ImageBudget, ...]:
    """A ratio for each of ``spans``: the share of tokens that repeat others, within the bounds.

    Source: our own. A flat background falls into few groups of tokens that are alike, a table or a
    page of text into nearly as many as it has tokens; what can go without loss is a group's tokens
    but one. Embeddings ``[T,H]`` that are not finite count as distinct. On a GPU this waits for the
    device, once for all spans.
    """
    if not spans:
        return ()
    edges = span_edges(spans, embeds.device)
    if kernels.usable(embeds):
        from .kernels.distinct import count_distinct

        return budgets(count_distinct(embeds, edges), lowest, highest)
    return budgets(distinct_shares(embeds, edges), lowest, highest)


def budgets(shares: Tensor, lowest: float, highest: float) -> tuple[ImageBudget, ...]:
    """What follows from the distinct ``shares [S]``; waits for them."""
    return tuple(ImageBudget(s, min(max(1 - s, lowest), highest)) for s in shares.tolist())


def span_edges(spans: Sequence[VisualSpan], device: torch.device) -> Tensor:
    """Start and size of each span: ``[S,2]`` int32 on ``device``, which is not waited for."""
    edges = [(span.start, len(span)) for span in spans]
    host = torch.tensor(edges, dtype=torch.int32, pin_memory=device.type == "cuda")
    return host.to(device, non_blocking=True)


def sampled_rows(edges: Tensor) -> tuple[Tensor, Tensor]:
    """Up to ``SAMPLE`` evenly spaced rows of each span: ``[S,SAMPLE]`` int64, and which are valid.

    A span with fewer tokens repeats its last one; those repetitions are not valid.
    """
    starts, sizes = edges[:, :1], edges[:, 1:]  # [S,1] each
    counts = sizes.clamp(max=SAMPLE)
    steps = torch.arange(SAMPLE, device=edges.device)
    places = (2 * torch.minimum(steps, counts - 1) + 1) * sizes // (2 * counts)  # [S,SAMPLE]
    return starts + places, steps < counts


def distinct_shares(embeds: Tensor, edges: Tensor) -> Tensor:
    """How many groups of tokens that are alike there are, per token: ``[S]`` fp32.

    Two tokens are alike where the cosine of their differences from the image's mean is 0.9 or more:
    the mean is what all of its tokens have in common, and how much that is depends on the
    checkpoint. A token that ``c`` tokens are like, itself included, counts as ``1/c`` group. Reads
    no value on the host. Cost: O(S m^2 H), with m = ``SAMPLE``.

    Args:
        embeds: ``[T,H]``.
        edges: ``[S,2]`` int32 on the same device, see :func:`span_edges`.
    """
    rows, valid = sampled_rows(edges)  # [S,m] each
    share = valid / valid.sum(dim=-1, keepdim=True)  # [S,m] fp32, of each token in the mean
    tokens = embeds[rows].float()  # [S,m,H]
    # Taking the mean away from the products costs less than from the tokens, and is the same.
    products = tokens @ tokens.mT  # [S,m,m]
    with_mean = (products * share[:, None]).sum(dim=-1, keepdim=True)  # [S,m,1]
    of_mean = (with_mean * share[..., None]).sum(dim=1, keepdim=True)  # [S,1,1]
    products -= MEAN_REMOVED * (with_mean + with_mean.mT)
    products += MEAN_REMOVED**2 * of_mean
    norms = products.diagonal(dim1=1, dim2=2).clamp(min=0).sqrt()  # [S,m]
    alike = products >= ALIKE * norms[..., None] * norms[:, None]  # [S,m,m]
    group = (alike & valid[:, None]).sum(dim=-1)  # [S,m], its size; NaN is like nothing
    return (share / group.clamp(min=1)).sum(dim=-1)
