"""Feature entropy of the visual rows, in one pass over them."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ....core.launch import Kernel, power_of_two

_LARGEST_CHUNK = 2048


@triton.jit
def _entropy(hidden, rows, visual, entropy, SIZE: tl.constexpr, CHUNK: tl.constexpr):
    """Grid: (R). The maximum so far scales what is summed so far, as in a streaming softmax."""
    row = tl.program_id(0)
    if (tl.load(rows + row) == 0) | (tl.load(visual + row) == 0):
        tl.store(entropy + row, 0.0)
        return
    lane = tl.arange(0, CHUNK)
    top, total, weighted = float("-inf"), 0.0, 0.0
    for first in range(0, SIZE, CHUNK):
        there = first + lane < SIZE
        z = tl.load(hidden + row.to(tl.int64) * SIZE + first + lane, mask=there, other=0)
        z = tl.where(there, z.to(tl.float32), float("-inf"))
        highest = tl.maximum(top, tl.max(z, axis=0))
        scale = tl.where(total > 0, tl.exp(top - highest), 0.0)
        below = tl.where(there, z - highest, 0.0)
        e = tl.where(there, tl.exp(below), 0.0)
        drop = tl.where(total > 0, top - highest, 0.0)
        weighted = (weighted + total * drop) * scale + tl.sum(below * e, axis=0)
        total = total * scale + tl.sum(e, axis=0)
        top = highest
    tl.store(entropy + row, tl.log(total) - weighted / total)


_KERNEL = Kernel(_entropy, num_warps=4)


def row_entropy(hidden: Tensor, rows: Tensor, visual_rows: Tensor) -> Tensor:
    """``[R]`` fp32: entropy of the softmax of each visual row of ``hidden [R,H]``, 0 elsewhere.

    Args:
        rows, visual_rows: ``[R]`` bool; a row is visual where both are true.
    """
    count, size = hidden.shape
    entropy = torch.empty(count, dtype=torch.float32, device=hidden.device)
    flags = (rows.view(torch.uint8), visual_rows.view(torch.uint8))
    chunk = min(power_of_two(size), _LARGEST_CHUNK)
    _KERNEL((count, 1, 1), (hidden, *flags, entropy), (), (size, chunk))
    return entropy
