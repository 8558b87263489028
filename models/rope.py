"""Rotary geometry, all computed outside the networks: mRoPE for text, axial RoPE for vision.

The networks take cosines and sines per row, so how a position is made is the runtime's business
alone. Angles are computed in fp32 and rounded once, to the engine's dtype.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .config import TextConfig, VisionConfig


def mrope_cos_sin(
    positions: Tensor, config: TextConfig, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Interleaved multi-axis RoPE of Qwen3-VL.

    Args:
        positions: ``[3,...]`` integer positions for time, height and width.

    Returns:
        ``cos, sin [...,D/2]``. Frequency ``i`` follows height where ``i % 3 == 1`` and width where
        ``i % 3 == 2`` (each below three times its section), time elsewhere.
    """
    half = config.head_dim // 2
    device = positions.device
    exponent = torch.arange(half, dtype=torch.float32, device=device) / half
    inverse = config.rope_theta**-exponent  # [D/2]
    angles = positions[..., None].float() * inverse  # [3,...,D/2]
    mixed = angles[0].clone()
    for axis in (1, 2):
        columns = slice(axis, 3 * config.mrope_section[axis], 3)
        mixed[..., columns] = angles[axis][..., columns]
    return mixed.cos().to(dtype), mixed.sin().to(dtype)


def patch_coordinates(height: int, width: int, merge: int) -> Tensor:
    """Row and column ``[2, height*width]`` of each patch, in merge-block order.

    Args:
        height, width: the image's patch grid; multiples of ``merge``.
    """
    rows = torch.arange(height).view(height // merge, 1, merge, 1)
    columns = torch.arange(width).view(1, width // merge, 1, merge)
    shape = (height // merge, width // merge, merge, merge)
    return torch.stack((rows.expand(shape).flatten(), columns.expand(shape).flatten()))


def vision_cos_sin(
    height: int, width: int, config: VisionConfig, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Axial RoPE of one image: ``cos, sin [height*width, D/2]``, rows first, then columns."""
    quarter = config.head_dim // 4
    exponent = torch.arange(quarter, dtype=torch.float32) / quarter
    inverse = config.rope_theta**-exponent  # [D/4]
    coordinates = patch_coordinates(height, width, config.merge_size).float()  # [2,N]
    angles = (coordinates[..., None] * inverse).transpose(0, 1).flatten(1)  # [N,D/2]
    return angles.cos().to(dtype), angles.sin().to(dtype)


def position_interpolation(height: int, width: int, config: VisionConfig) -> tuple[Tensor, Tensor]:
    """Bilinear resampling of the learned position grid to one image (corners aligned).

    Returns:
        ``indices [N,4]`` int64 rows of the table and ``weights [N,4]`` fp32 that sum to one, in
        merge-block order.
    """
    rows, columns = patch_coordinates(height, width, config.merge_size)  # [N] each
    side = config.grid_side
    row_index, row_weight = _corners(height, side)
    column_index, column_weight = _corners(width, side)
    # [N,2,1] x [N,1,2] -> the four corners of each patch
    indices = row_index[rows][:, :, None] * side + column_index[columns][:, None, :]
    weights = row_weight[rows][:, :, None] * column_weight[columns][:, None, :]
    return indices.flatten(1), weights.flatten(1)


def _corners(count: int, side: int) -> tuple[Tensor, Tensor]:
    """Floor and ceiling rows ``[count,2]`` of ``count`` even samples, and their weights."""
    samples = torch.linspace(0, side - 1, count, dtype=torch.float32)
    low = samples.long()
    high = (low + 1).clamp(max=side - 1)
    fraction = samples - low
    return torch.stack((low, high), dim=1), torch.stack((1 - fraction, fraction), dim=1)
