"""The leaf operators a network leaves to its host.

The networks are written once. What differs between hosts (eager torch with a KV cache, an ONNX
graph, a trainer with its own mask) is how a rotation and an attention are computed, so a host
passes its own :class:`Operators` to ``forward``.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from .routing import Routing


class Operators(Protocol):
    """What a host supplies. ``layer`` is the 0-based index of the calling block."""

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Rotate ``x [B,H,S,D]`` in half-split (NeoX) form by ``cos, sin [B,S,D/2]``."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, layer: int) -> Tensor:
        """Attention of ``q [B,Hq,S,D]`` over ``k, v [B,Hkv,S,D]``; returns ``[B,Hq,S,D]``."""


class TextOperators(Operators, Protocol):
    """What a host of the language model supplies; only a mixture of experts calls these two."""

    def route(self, hidden: Tensor, routing: Routing, layer: int) -> Routing:
        """Change where the rows ``hidden [R,H]`` go; the router's choice itself is ``routing``."""

    def experts(
        self, hidden: Tensor, routing: Routing, gate_up: Tensor, down: Tensor, layer: int
    ) -> Tensor:
        """The weighted sum ``[R,H]`` of what each row's experts make of it.

        Args:
            gate_up: ``[N,H,2I]``, gate and up projection side by side.
            down: ``[N,I,H]``.
        """


def rotate_half_split(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Reference rotation in plain torch: ``x [B,H,S,D]``, ``cos, sin [B,S,D/2]``, same dtype."""
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)  # [B,1,S,D/2]
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
