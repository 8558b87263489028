"""What a pruner is given: one prompt, its configuration and the budget that follows from both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ..core import PipelineIO
from .adaptive import ImageBudget, adapt
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
    assembled: PipelineIO | None = None  # with ``early``: the prompt that entered these layers

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

    @cached_property
    def adapted(self) -> tuple[ImageBudget, ...]:
        """What was measured of each span to choose its ratio; empty where the ratio is given."""
        if not self.config.adapts:
            return ()
        prompt = self.io if self.assembled is None else self.assembled
        return adapt(prompt.embeds, self.io.spans, self.config.auto_min, self.config.auto_max)

    @cached_property
    def ratios(self) -> tuple[float, ...]:
        """The fraction to remove of each span, in the order of ``io.spans``."""
        if self.config.adapts:
            return tuple(image.reduction_ratio for image in self.adapted)
        return (self.config.largest_ratio,) * len(self.io.spans)

    @cached_property
    def ratio(self) -> float:
        """The fraction to remove of the whole prompt's visual tokens."""
        if not self.config.adapts:
            return self.config.largest_ratio
        spans = zip(self.io.spans, self.ratios, strict=True)
        return sum(len(span) * ratio for span, ratio in spans) / self.io.visual_tokens

    @cached_property
    def quotas(self) -> tuple[int, ...]:
        """The quota of each span, in the order of ``io.spans``."""
        spans = zip(self.io.spans, self.ratios, strict=True)
        return tuple(self.config.quota(len(span), ratio) for span, ratio in spans)

    @cached_property
    def layout(self) -> Layout:
        """Where everything lies once each span keeps exactly its quota."""
        return Layout.of(self.io, self.quotas)

    @cached_property
    def norms(self) -> RowNorms:
        """L1 and L2 norm of every token's embedding."""
        return RowNorms(self.io.embeds)
