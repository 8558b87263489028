"""What the first decoder layers make of a prompt, for pruners that judge tokens by it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..core import PipelineIO
from .layout import Layout


@dataclass(frozen=True)
class EarlyStates:
    """A prompt of ``T`` tokens behind its first ``layers`` decoder layers."""

    io: PipelineIO  # its embeddings are the hidden states that enter the next layer
    layers: int
    keys: Tensor  # [T,Hkv*D] rotated keys of the last of these layers, all heads side by side
    normed: Tensor  # [T,H] the hidden states after the model's final norm

    def surviving_rows(self, short: PipelineIO, kept: Tensor) -> Tensor:
        """Rows of this prompt that are left in ``short``, ``[T']`` int64 ascending.

        Args:
            short: ``self.io`` of which only the visual rows ``kept`` are left, and all text.
        """
        layout = Layout.of(self.io, tuple(len(span) for span in short.spans))
        return layout.surviving_rows(kept.to(self.keys.device))
