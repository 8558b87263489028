"""How much a visual token says: the entropy of its features, and the weight that follows from it.

Source: MACS, section 3.2, equations 4 and 5.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Weights are whole multiples of 1/UNIT, and loads sums of them: exact in any order of summation,
# so every form of the operator takes the same decisions.
UNIT = 1 << 16


def feature_entropy(hidden: Tensor) -> Tensor:
    """Shannon entropy ``[R]`` fp32, in nats, of the softmax of each row of ``hidden [R,H]``."""
    z = hidden.float()
    z = z - z.amax(dim=1, keepdim=True)
    e = z.exp()
    total = e.sum(dim=1)
    return total.log() - (z * e).sum(dim=1) / total


def images(visual: Tensor) -> Tensor:
    """Number ``[R]`` of the image each visual row belongs to, from 0; other rows: of the last one.

    An image is a run of consecutive visual rows: there are markers between images in a prompt.
    """
    starts = visual & ~torch.cat((visual.new_zeros(1), visual[:-1]))
    return (starts.cumsum(0) - 1).clamp(min=0)


def z_scores(entropy: Tensor, visual: Tensor, image: Tensor, epsilon: Tensor) -> Tensor:
    """``(H - mean) / (std + epsilon)`` over the visual rows of each image, 0 for other rows.

    Args:
        entropy: ``[R]`` fp32.
        visual: ``[R]`` bool.
        image: ``[R]`` int64, the group each row is compared with.

    Returns:
        ``[R]`` fp32. The standard deviation is that of a population.
    """
    present = visual.float()
    count = _sums(present, image).clamp(min=1)
    mean = _sums(entropy.where(visual, 0), image) / count
    centred = (entropy - mean).where(visual, 0)
    deviation = (_sums(centred * centred, image) / count).sqrt()
    return centred / (deviation + epsilon)


def weight_units(z: Tensor, visual: Tensor, sensitivity: Tensor) -> Tensor:
    """Semantic weights ``[R]`` int64 in units: ``sigmoid(-sensitivity * z)``; 1 for text."""
    weight = torch.sigmoid(-sensitivity * z)
    return (weight * UNIT + 0.5).floor().long().where(visual, UNIT)


def _sums(values: Tensor, image: Tensor) -> Tensor:
    """For each row, the sum of ``values`` over its image."""
    return torch.zeros_like(values).index_add_(0, image, values)[image]
