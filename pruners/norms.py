"""Norms of a prompt's embeddings: what several pruners rank by, and where damage shows."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from ..core import RequestError
from . import kernels


class RowNorms:
    """L1 and L2 norm of each row of ``embeds [T,H]``, accumulated in fp32, computed when asked for.

    A row is *damaged* where its L2 norm is not finite: it holds NaN, Inf, or numbers beyond 1e19,
    whose squares exceed fp32. Between sound rows no product of norms, no dot product and no cosine
    can be NaN or Inf. The L1 norm of a damaged row means nothing.
    """

    def __init__(self, embeds: Tensor) -> None:
        self._embeds = embeds

    @cached_property
    def l1(self) -> Tensor:
        """``[T]`` fp32."""
        if kernels.usable(self._embeds):
            return self._both[0]
        return torch_l1(self._embeds)

    @cached_property
    def l2(self) -> Tensor:
        """``[T]`` fp32."""
        if kernels.usable(self._embeds):
            return self._both[1]
        return torch_l2(self._embeds)

    @cached_property
    def _both(self) -> tuple[Tensor, Tensor]:
        from .kernels.norms import row_norms

        return row_norms(self._embeds)


def torch_l1(embeds: Tensor) -> Tensor:
    return embeds.abs().sum(dim=-1, dtype=torch.float32)


def torch_l2(embeds: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(embeds, dim=-1, dtype=torch.float32)
    return norms


def require_finite(l2: Tensor) -> None:
    """Wait for the device and check embeddings by their L2 norms ``[T]``.

    Raises:
        RequestError: a row is damaged; the first one is named.
    """
    damaged = (~l2.cpu().isfinite()).nonzero()
    if damaged.numel():
        raise RequestError(
            f"the prompt's embeddings hold NaN or Inf, first at token {int(damaged[0])}; nothing "
            "can be selected from them: check the checkpoint and the engine's dtype"
        )
