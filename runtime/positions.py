"""Multi-axis rotary positions (mRoPE) of a prompt with images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..core import VisualSpan


def mrope_positions(
    length: int, spans: Sequence[VisualSpan], grids: Sequence[tuple[int, int]]
) -> tuple[Tensor, int]:
    """Positions of a prompt of ``length`` tokens.

    Text advances all three axes by one per token. A visual span stands at one time; its height and
    width count up from there; whatever follows continues after the larger of its two sides.

    Args:
        spans: the visual tokens, ascending.
        grids: rows and columns of visual tokens of each span (after merging).

    Returns:
        ``positions [3,length]`` int64 (time, height, width), and the position of the token after
        the last, which is one more than the largest.
    """
    positions = torch.empty(3, length, dtype=torch.int64)
    token = position = 0
    for span, (rows, columns) in zip(spans, grids, strict=True):
        text = span.start - token
        positions[:, token : span.start] = torch.arange(position, position + text)
        position += text
        here = positions[:, span.start : span.end].view(3, rows, columns)
        here[0] = position
        here[1] = torch.arange(position, position + rows)[:, None]
        here[2] = torch.arange(position, position + columns)
        position += max(rows, columns)
        token = span.end
    positions[:, token:] = torch.arange(position, position + length - token)
    return positions, position + length - token
