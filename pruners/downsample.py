"""Downsampling: show the vision tower a smaller image instead of dropping tokens."""

from __future__ import annotations

from torch import Tensor

from ..core import PipelineIO, UsageError
from .base import VisualTokenPruner, all_visual, skip_reason
from .config import VisualPrunerConfig
from .early import EarlyStates
from .report import PruneReport, SkipReason
from .request import PruneRequest


class DownsamplePruner(VisualTokenPruner):
    """A smaller image instead of fewer tokens of the full one.

    Source: none needed; the honest baseline, since a prompt of the same length can always be had
    this way, and the vision tower gets cheaper too. Each image or frame pair is resized, before it
    is cut into patches, to about the fraction of its visual tokens that is to be kept: the nearest
    whole number of rows and columns of tokens that nearly keeps its shape. All of its tokens then
    stay, with the positions of the smaller image. ``min_visual_tokens`` counts per image or frame
    pair. Images sent with ``do_resize=False`` go in as they are. There are no options. Cost:
    negative. Use it in accuracy tables, and where the vision tower dominates and nothing in the
    image is small.

    The report's ``kept`` are the rows of the prompt with the smaller images.
    """

    def __init__(self, config: VisualPrunerConfig) -> None:
        super().__init__(config)
        if config.adapts:
            raise UsageError(
                f"visual pruner {config.algorithm!r} shrinks an image before it can be measured: "
                'reduction_ratio must be a number, got "auto"'
            )

    def shown_tokens(self, tokens: int) -> int:
        """The quota of one image, as if its tokens were to be dropped."""
        if not self.config.enabled or tokens < self.config.min_visual_tokens:
            return tokens
        return self.config.quota(tokens)

    def select(self, request: PruneRequest) -> Tensor:
        """Keep everything: what had to go never became a token."""
        return request.visual_positions

    def prune(
        self, io: PipelineIO, shrunk: int = 0, early: EarlyStates | None = None
    ) -> tuple[PipelineIO, PruneReport]:
        """Return ``io`` and what shrinking its images has saved."""
        reason = None
        if not shrunk:
            reason = skip_reason(PruneRequest(io, self.config)) or SkipReason.NOTHING_TO_REMOVE
        return io, self._report(io, all_visual(io), shrunk, skipped=reason)
