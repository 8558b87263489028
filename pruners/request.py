"""What a pruner is given: one prompt, its configuration and the budget that follows from both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ..core import PipelineIO
from .config import VisualPrunerConfig
from .early import EarlyStates
from .layout import Layout
from .norms import RowNorms


@dataclass(frozen=True)
class PruneRequest:
    """One prompt to shorten. ``io`` is shared with the caller: read it, never write to it."""

    io: PipelineIO
    config: VisualPrunerConfig
    early: EarlyStates | None = None  # for pruners with ``early_layers``

    @cached_property
    def visual_positions(self) -> Tensor:
        """Ascending rows of all visual tokens, ``[.]`` int64 on the prompt's device."""
        device = self.io.embeds.device
        rows = [torch.arange(span.start, span.end, device=device) for span in self.io.spans]
        return torch.cat(rows) if rows else torch.empty(0, dtype=torch.int64, device=device)

    @cached_property
    def text_positions(self) -> Tensor:
        """Ascending rows of everything else, ``[.]`` int64 on the prompt's device."""
        return self.layout.text_rows(self.io.embeds.device)

    def quota(self, tokens: int) -> int:
        """See :meth:`VisualPrunerConfig.quota`."""
        return self.config.quota(tokens)

    @cached_property
    def quotas(self) -> tuple[int, ...]:
        """The quota of each span, in the order of ``io.spans``."""
        return tuple(self.quota(len(span)) for span in self.io.spans)

    @cached_property
    def layout(self) -> Layout:
        """Where everything lies once each span keeps exactly its quota."""
        return Layout.of(self.io, self.quotas)

    @cached_property
    def norms(self) -> RowNorms:
        """L1 and L2 norm of every token's embedding."""
        return RowNorms(self.io.embeds)
