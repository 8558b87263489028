"""From a batch of packed prompts to the loss, and to which answers are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from edgevlm.accuracy.tiny.chat import MAX_ANSWER
from edgevlm.accuracy.tiny.render import RenderTables, render

from .layout import Layout
from .network import TinyNetwork, to_patches
from .pool import Batch

Renderer = Callable[[Tensor, Tensor, int, int, RenderTables], Tensor]


@dataclass(frozen=True)
class Objective:
    """Renders, runs and scores batches of one bucket.

    Attributes:
        dtype: of patches, and so of activations; the network's parameters match it, or autocast
            is on.
        autocast: run in bfloat16 autocast with fp32 parameters.
    """

    layout: Layout
    tables: RenderTables
    dtype: torch.dtype
    autocast: bool = False
    renderer: Renderer = render

    def patches(self, batch: Batch) -> Tensor:
        """Draw a batch's scenes: ``[B*images,N,patch_dim]``, exactly as from PNG files."""
        bucket = self.layout.bucket
        heads, cells = batch.heads.flatten(0, 1), batch.cells.flatten(0, 1)
        images = self.renderer(heads, cells, bucket.height, bucket.width, self.tables)
        return to_patches(images, merge=2, patch=16, frames=2).to(self.dtype)

    def loss(self, network: TinyNetwork, batch: Batch) -> Tensor:
        """Mean cross-entropy over answer tokens, ends of turn included; a scalar."""
        logits, targets, counts = self._predict(network, batch)
        losses = F.cross_entropy(logits.flatten(0, 2), targets.flatten(), reduction="none")
        weights = counts.flatten().float()
        return (losses * weights).sum() / weights.sum()

    def correct(self, network: TinyNetwork, batch: Batch) -> Tensor:
        """``[B,Q]`` bool: every answer token is the most likely one.

        Teacher forcing decides exactly this: greedy decoding gives the same answer if and only if
        each token is the most likely one after its predecessors.
        """
        logits, targets, counts = self._predict(network, batch)
        return ((logits.argmax(-1) == targets) | ~counts).all(-1)

    def _predict(self, network: TinyNetwork, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Logits ``[B,Q,A,V]``, target ids ``[B,Q,A]`` and which of them count ``[B,Q,A]``."""
        steps = torch.arange(MAX_ANSWER, device=batch.tokens.device)
        tokens = batch.tokens.long()
        last = tokens.shape[-1] - 1
        places = (batch.starts.long()[..., None] + steps).clamp(max=last)  # [B,Q,A]
        targets = tokens.gather(-1, places)
        counts = steps < batch.lengths[..., None]
        with torch.autocast(
            batch.tokens.device.type,
            dtype=torch.bfloat16,
            enabled=self.autocast,
            cache_enabled=False,
        ):
            logits = network(self.patches(batch), tokens, places - 1, self.layout)
        return logits, targets, counts
