"""Attention importance: how much attention each patch receives, without the attention matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from . import kernels

_KERNEL_WIDTHS = range(16, 129)  # of a head
_CHUNK = 2**23  # attention weights held at once where there are no kernels: 32 MB


@dataclass(frozen=True)
class Segments:
    """Queries and keys of several independent attentions, seen head by head.

    Args:
        q, k: post-RoPE, as a padded batch ``[S,H,N,D]`` or packed ``[total,H,D]``, of one dtype.
        lengths: valid patches of each segment of a batch; all ``N`` if ``None``.
        cu_seqlens: ``S + 1`` ascending borders of the packed segments, from 0 to ``total``.

    Raises:
        ValueError: the shapes or lengths do not fit together.
    """

    q: Tensor
    k: Tensor
    lengths: Sequence[int] | None = None
    cu_seqlens: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.q.shape != self.k.shape or self.q.dtype != self.k.dtype:
            raise ValueError(f"q and k differ: {_brief(self.q)} and {_brief(self.k)}")
        packed = self.cu_seqlens is not None
        if self.q.dim() != (3 if packed else 4) or (packed and self.lengths is not None):
            raise ValueError(
                "expected q [S,H,N,D] with lengths, or q [total,H,D] with cu_seqlens, got "
                f"{_brief(self.q)}"
            )
        if self.cu_seqlens is not None:
            total, ends = self.q.shape[0], list(self.cu_seqlens)
            if ends[:1] != [0] or ends[-1] != total or ends != sorted(ends):
                raise ValueError(f"cu_seqlens must ascend from 0 to {total}, got {ends}")
        elif self.lengths is not None:
            count, longest = self.q.shape[0], self.q.shape[2]
            if len(self.lengths) != count or not all(0 <= n <= longest for n in self.lengths):
                raise ValueError(
                    f"expected {count} lengths of 0 to {longest}, got {list(self.lengths)}"
                )

    @property
    def bounds(self) -> list[tuple[int, int, int]]:
        """Of each segment that is not empty: its index in a batch, first patch and length."""
        if self.cu_seqlens is None:
            count, _, longest, _ = self.q.shape
            lengths = [longest] * count if self.lengths is None else self.lengths
            return [(index, 0, length) for index, length in enumerate(lengths) if length]
        return [(0, start, end - start) for start, end in pairwise(self.cu_seqlens) if end > start]

    def by_head(self, tensor: Tensor) -> Tensor:
        """View ``q`` or ``k`` as ``[batch,H,N,D]``; a packed tensor is a batch of one."""
        return tensor if self.cu_seqlens is None else tensor.transpose(0, 1)[None]


def attention_importance(
    q: Tensor,
    k: Tensor,
    *,
    scale: float | None = None,
    lengths: Sequence[int] | None = None,
    cu_seqlens: Sequence[int] | None = None,
    lse: Tensor | None = None,
) -> Tensor:
    """Attention received by each patch: mean over heads, sum over the queries of its own segment.

    ``s_p = 1/H sum_h sum_i exp(scale q_hi . k_hp - lse_hi)``, the score of VisionZip without a
    class token. The scores of a segment add up to its length, so 1 is average in any segment, and
    segments of any size compare.

    Args:
        q, k, lengths, cu_seqlens: see :class:`Segments`.
        scale: of the softmax; ``D ** -0.5`` if ``None``.
        lse: natural logarithm of each query's sum of ``exp(scale q . k)``, fp32 ``[S,H,N]`` or
            ``[H,total]``, as fused attention may have left it; computed if ``None``.

    Returns:
        ``[S,N]`` (0 where padded) or ``[total]`` fp32. The same input gives the same bits. Besides
        it, the kernels take 4 to 8 bytes per head and patch; elsewhere 32 MB suffice.

    Raises:
        ValueError: shapes or lengths do not fit together.
    """
    segments = Segments(q, k, lengths, cu_seqlens)
    queries = segments.by_head(q)  # [B,H,N,D]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if lse is not None:
        expected = q.shape[:3] if cu_seqlens is None else (q.shape[1], q.shape[0])
        if lse.shape != expected:
            raise ValueError(f"expected lse of shape {tuple(expected)}, got {tuple(lse.shape)}")
        lse = lse.float().view(queries.shape[:3])  # [B,H,N]
    keys = segments.by_head(k)
    if kernels.usable(q) and q.shape[-1] in _KERNEL_WIDTHS and segments.bounds:
        from .kernels.column_sums import column_sums

        received = column_sums(queries, keys, segments.bounds, scale, lse)  # [B,H,N]
    else:
        received = _column_sums(queries, keys, segments.bounds, scale, lse)  # [B,H,N]
    importance = received.mean(dim=1)  # [B,N]
    return importance if cu_seqlens is None else importance[0]


def merged_importance(patches: Tensor, merge_unit: int = 4) -> Tensor:
    """Importance ``[...,N/4]`` of merged tokens: the sum over each token's consecutive patches."""
    return patches.reshape(*patches.shape[:-1], -1, merge_unit).sum(dim=-1)


def _column_sums(
    q: Tensor, k: Tensor, bounds: list[tuple[int, int, int]], scale: float, lse: Tensor | None
) -> Tensor:
    """What ``kernels.column_sums`` computes, a chunk of queries at a time."""
    sums = torch.zeros(q.shape[:3], dtype=torch.float32, device=q.device)  # [B,H,N]
    for batch, start, length in bounds:
        segment = slice(start, start + length)
        keys = k[batch, :, segment].float()  # [H,n,D]
        step = max(1, _CHUNK // max(1, q.shape[1] * length))
        for first in range(start, start + length, step):
            chunk = slice(first, min(first + step, start + length))
            scores = q[batch, :, chunk].float() @ keys.mT * scale  # [H,c,n]
            if lse is None:
                weights = scores.softmax(dim=-1)
            else:
                weights = (scores - lse[batch, :, chunk, None]).exp()
            sums[batch, :, segment] += weights.sum(dim=1)
    return sums


def _brief(tensor: Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}"
