"""Merging tokens: some of the rows that stay become weighted sums of rows of the whole prompt."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from .selection import MergeWeights


class Merger:
    """Applies one :class:`MergeWeights` to as many tensors as share its rows.

    Terms are added in their order, row by row, so repeated runs agree to the bit. Nothing waits
    for the device.

    Args:
        rows: ``[K]`` int64 ascending, the rows that stay; every row of ``merge`` is one of them.
    """

    def __init__(self, merge: MergeWeights, rows: Tensor) -> None:
        by_row = merge.rows.sort(stable=True)
        self._sources = merge.sources[by_row.indices]  # [m]
        self._weights = merge.weights[by_row.indices]  # [m]
        begin = torch.searchsorted(by_row.values, rows)  # [K] first term of each row
        end = torch.searchsorted(by_row.values, rows, right=True)  # [K]
        self._offsets = torch.cat((begin, end[-1:]))  # [K+1]
        self._touched = (end > begin)[:, None]  # [K,1]

    def write(self, gathered: Tensor, whole: Tensor) -> None:
        """Replace the merged rows of ``gathered [K,H]``, itself cut from ``whole [T,H]``."""
        terms = whole[self._sources].float()  # [m,H]
        sums = embedding_bag(
            torch.arange(len(terms), device=terms.device),
            terms,
            self._offsets,
            mode="sum",
            per_sample_weights=self._weights,
            include_last_offset=True,
        )  # [K,H] fp32, zeros where there is no term
        gathered.copy_(torch.where(self._touched, sums.to(whole.dtype), gathered))
