"""An image, or a pair of video frames, as the rows the vision tower multiplies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..models import VisionConfig
from .preprocessor_config import PreprocessorConfig


def resize(image: Image.Image, height: int, width: int) -> Image.Image:
    """Bicubic resampling of 8-bit channels, as the model's own preprocessing does it."""
    if image.size == (width, height):
        return image
    return image.resize((width, height), Image.Resampling.BICUBIC)


def to_patches(
    frames: Sequence[Image.Image], config: PreprocessorConfig, vision: VisionConfig
) -> Tensor:
    """Normalise and flatten ``frames``: one still image, or ``temporal_patch_size`` video frames.

    Args:
        frames: RGB, all of one size, both sides multiples of patch size x merge size.

    Returns:
        ``[N,C*T*P*P]`` fp32, one row per patch. Rows are in merge-block order: the patches of one
        visual token are neighbours. A still image fills every temporal position.
    """
    patch, merge = vision.patch_size, vision.merge_size
    pixels = torch.from_numpy(np.stack([np.asarray(frame) for frame in frames]))  # [F,H,W,C]
    count, height, width, channels = pixels.shape
    rows, columns = height // patch, width // patch
    blocks = pixels.view(
        count, rows // merge, merge, patch, columns // merge, merge, patch, channels
    ).permute(1, 4, 2, 5, 7, 0, 3, 6)  # [H/MP,W/MP,M,M,C,F,P,P]
    statistic = (channels, 1, 1, 1)
    values = blocks.float().div_(255)
    values.sub_(torch.tensor(config.mean).view(statistic))
    values.div_(torch.tensor(config.std).view(statistic))
    shape = list(values.shape)
    shape[5] = vision.temporal_patch_size
    return values.expand(shape).reshape(rows * columns, vision.patch_dim)
