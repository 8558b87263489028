"""The leaf operators a network leaves to its host.

The networks are written once. What differs between hosts (eager torch with a KV cache, an ONNX
graph, a trainer with its own mask) is how a rotation and an attention are computed, so a host
passes its own :class:`Operators` to ``forward``.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Operators(Protocol):
    """What a host supplies. ``layer`` is the 0-based index of the calling block."""

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Rotate ``x [B,H,S,D]`` in half-split (NeoX) form by ``cos, sin [B,S,D/2]``."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, layer: int) -> Tensor:
        """Attention of ``q [B,Hq,S,D]`` over ``k, v [B,Hkv,S,D]``; returns ``[B,Hq,S,D]``."""


def rotate_half_split(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Reference rotation in plain torch: ``x [B,H,S,D]``, ``cos, sin [B,S,D/2]``, same dtype."""
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)  # [B,1,S,D/2]
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
