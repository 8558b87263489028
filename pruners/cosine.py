"""Cosine similarity as all pruners here see it: fp32 whatever the dtype, 0 for a zero row."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_MIN_NORM_PRODUCT = 1e-8


@dataclass(frozen=True)
class Directions:
    """Rows prepared for being compared with one another, a few at a time."""

    rows: Tensor  # [n,D] fp32
    norms: Tensor  # [n] fp32

    @classmethod
    def of(cls, rows: Tensor) -> Directions:
        wide = rows.float()
        return cls(wide, torch.linalg.vector_norm(wide, dim=-1))

    def cosine(self, picked: Tensor | slice) -> Tensor:
        """Cosine ``[m,n]`` of each of the ``m`` rows ``picked`` to all rows."""
        norms = self.norms[picked, None] * self.norms  # [m,n]
        return (self.rows[picked] @ self.rows.T).div_(norms.clamp_(min=_MIN_NORM_PRODUCT))


def pairwise_cosine(rows: Tensor) -> Tensor:
    """Cosine ``[...,n,n]`` of all pairs of ``rows [...,n,D]``, batch by batch."""
    wide = rows.float()
    norms = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)  # [...,n,1]
    products = (norms * norms.mT).clamp_(min=_MIN_NORM_PRODUCT)
    return (wide @ wide.mT).div_(products)
