"""The base class of all visual-token pruners: it owns everything but the choice of tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from time import perf_counter
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..core import PipelineIO, RequestError
from . import kernels
from .checks import checked_selection
from .compaction import compact
from .config import VisualPrunerConfig
from .early import EarlyStates
from .layout import Layout
from .norms import require_finite
from .options import NoOptions, build_options
from .report import PruneReport, SkipReason
from .request import PruneRequest
from .selection import Selection


class VisualTokenPruner(ABC):
    """Shortens prompts by dropping visual tokens; a subclass says which ones stay.

    ``Options`` is a frozen dataclass of the algorithm's own settings; the checked instance is
    ``self.options``. One pruner serves many requests, possibly from several threads: ``select``
    must not keep state. ``needs_importance`` has the runtime compute ``io.importance``, which costs
    time, for engines that can deliver it.

    Raises:
        UsageError: ``config.options`` does not fit ``Options``.
    """

    Options: ClassVar[type] = NoOptions
    options: Any
    needs_importance: ClassVar[bool] = False

    def __init__(self, config: VisualPrunerConfig) -> None:
        self.config = config
        self.options = build_options(self.Options, config.algorithm, config.options)

    @abstractmethod
    def select(self, request: PruneRequest) -> Tensor | Selection:
        """Return the visual rows to keep, at least one of each span.

        Any order, no duplicates: ``[k]`` int64 or int32, on any device; a :class:`Selection` where
        dropped tokens are to be merged into kept ones. Called only when there is something to
        remove and all embeddings are finite. ``request.quotas`` is the budget the user asked for,
        span by span; an algorithm may spread its sum differently. The answer is checked, on the
        host; see ``keeps_quotas`` for doing without.
        """

    def shown_tokens(self, tokens: int) -> int:
        """To how many of its ``tokens`` visual tokens an image or frame pair is to be shrunk.

        The runtime asks before it makes the patches of each. The default is not to shrink; an
        algorithm that works on pixels has its say here.
        """
        return tokens

    @property
    def early_layers(self) -> int:
        """How many decoder layers are to run on the whole prompt before it is pruned."""
        return 0

    def wanted_layers(self, io: PipelineIO) -> int:
        """``early_layers`` if this prompt will be pruned, or may be, else 0."""
        if not self.early_layers:
            return 0
        # Measuring what "auto" removes can wait until the layers have run.
        most = replace(self.config, reduction_ratio=self.config.largest_ratio)
        return 0 if skip_reason(PruneRequest(io, most)) else self.early_layers

    def prune(
        self, io: PipelineIO, shrunk: int = 0, early: EarlyStates | None = None
    ) -> tuple[PipelineIO, PruneReport]:
        """Return the shortened prompt and what was done.

        Where pruning does not apply, ``io`` itself comes back and ``skipped`` says why.

        Args:
            shrunk: visual tokens saved already by shrinking images; reported as pruned.
            early: ``io`` behind ``early_layers`` layers, if that is not 0 and the engine can stop
                there; then this, shortened, is what comes back.

        On CUDA, a ``select`` marked ``keeps_quotas`` makes this return without waiting for the
        device. Whether the embeddings are finite is then for ``report.require_finite()`` to find
        out, and rows that are not are zeros in the shortened prompt, so that they harm nobody
        until then.

        Raises:
            RequestError: the embeddings hold NaN or Inf, or ``select`` failed or broke its rules.
        """
        started = perf_counter()
        assembled, io = io, io if early is None else early.io
        request = PruneRequest(io, self.config, early, assembled)
        reason = skip_reason(request)
        if reason is None and self.early_layers and early is None:
            reason = SkipReason.NO_EARLY_STATES
        if reason is not None:
            measured = request.adapted if reason is SkipReason.NOTHING_TO_REMOVE else ()
            return io, self._report(io, all_visual(io), shrunk, skipped=reason, adapted=measured)
        trusted = getattr(self.select, "keeps_quotas", False)
        unverified = request.norms.l2 if trusted and kernels.usable(io.embeds) else None
        if unverified is None:
            require_finite(request.norms.l2)
        selection, layout = self._select(request, trusted)
        elapsed = (perf_counter() - started) * 1e3
        pruned = compact(io, selection.kept, layout, selection.merge, unverified)
        report = self._report(
            io,
            selection.kept,
            shrunk,
            selection_ms=elapsed,
            unverified=unverified,
            adapted=request.adapted,
        )
        return pruned, report

    def _select(self, request: PruneRequest, trusted: bool) -> tuple[Selection, Layout]:
        name = self.config.algorithm
        try:
            answer = self.select(request)
        except RequestError:
            raise
        except Exception as error:
            raise RequestError(
                f"visual pruner {name!r} failed: {type(error).__name__}: {error}"
            ) from error
        if trusted and isinstance(answer, Tensor):
            return Selection(answer), request.layout
        try:
            return checked_selection(request.io, answer)
        except ValueError as error:
            raise RequestError(
                f"visual pruner {name!r} made an invalid selection: {error}"
            ) from error

    def _report(self, io: PipelineIO, kept: Tensor, shrunk: int, **outcome: Any) -> PruneReport:
        return PruneReport(
            algorithm=self.config.algorithm,
            reduction_ratio=self.config.reduction_ratio,
            visual_tokens_before=io.visual_tokens + shrunk,
            prompt_tokens_before=len(io) + shrunk,
            kept=kept,
            **outcome,
        )


def skip_reason(request: PruneRequest) -> SkipReason | None:
    """Why this prompt is to be left alone, or ``None``."""
    tokens = request.io.visual_tokens
    if not request.config.enabled:
        return SkipReason.DISABLED
    if not tokens:
        return SkipReason.NO_VISUAL_TOKENS
    if tokens < request.config.min_visual_tokens:
        return SkipReason.TOO_FEW
    if sum(request.quotas) >= tokens:
        return SkipReason.NOTHING_TO_REMOVE
    return None


def all_visual(io: PipelineIO) -> Tensor:
    """All visual rows, ``[k]`` int64 ascending, on the CPU."""
    rows = [torch.arange(span.start, span.end) for span in io.spans]
    return torch.cat(rows) if rows else torch.empty(0, dtype=torch.int64)
