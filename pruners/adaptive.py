"""Choosing how much to remove from what an image contains: ``reduction_ratio: "auto"``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core import VisualSpan

SAMPLE = 128  # tokens of an image that are compared with one another
_ALIKE = 0.9
# Not all of the mean is taken away, so that tokens which differ by rounding alone stay alike.
_MEAN_REMOVED = 0.99


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
    shares = distinct_shares(embeds, sampled_rows(spans)).tolist()
    return tuple(ImageBudget(s, min(max(1 - s, lowest), highest)) for s in shares)


def sampled_rows(spans: Sequence[VisualSpan]) -> Tensor:
    """Up to ``SAMPLE`` evenly spaced rows of each span: ``[S,m]`` int64 on the CPU, ended by -1."""
    edges = torch.tensor([(span.start, len(span)) for span in spans])  # [S,2]
    starts, sizes = edges[:, :1], edges[:, 1:]  # [S,1] each
    counts = sizes.clamp(max=SAMPLE)
    steps = torch.arange(int(counts.max()))  # [m]
    rows = starts + (2 * steps + 1) * sizes // (2 * counts)
    return rows.masked_fill(steps >= counts, -1)


def distinct_shares(embeds: Tensor, rows: Tensor) -> Tensor:
    """How many groups of tokens that are alike there are, per token: ``[S]`` fp32.

    Two tokens are alike where the cosine of their differences from the image's mean is 0.9 or more:
    the mean is what all of its tokens have in common, and how much that is depends on the
    checkpoint. A token that ``c`` tokens are like, itself included, counts as ``1/c`` group. Reads
    no value on the host. Cost: O(S m^2 H).

    Args:
        embeds: ``[T,H]``.
        rows: ``[S,m]`` int64, see :func:`sampled_rows`.
    """
    if embeds.is_cuda:
        rows = rows.pin_memory().to(embeds.device, non_blocking=True)
    valid = rows >= 0  # [S,m]
    share = valid / valid.sum(dim=-1, keepdim=True)  # [S,m] fp32, of each token in the mean
    tokens = embeds[rows.clamp(min=0)].float()  # [S,m,H]
    # Taking the mean away from the products costs less than from the tokens, and is the same.
    products = tokens @ tokens.mT  # [S,m,m]
    with_mean = (products * share[:, None]).sum(dim=-1, keepdim=True)  # [S,m,1]
    of_mean = (with_mean * share[..., None]).sum(dim=1, keepdim=True)  # [S,1,1]
    products -= _MEAN_REMOVED * (with_mean + with_mean.mT)
    products += _MEAN_REMOVED**2 * of_mean
    norms = products.diagonal(dim1=1, dim2=2).clamp(min=0).sqrt()  # [S,m]
    alike = products >= _ALIKE * norms[..., None] * norms[:, None]  # [S,m,m]
    group = (alike & valid[:, None]).sum(dim=-1)  # [S,m], its size; NaN is like nothing
    return (share / group.clamp(min=1)).sum(dim=-1)
