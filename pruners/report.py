"""What a pruner did to one prompt, or why it did nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from torch import Tensor

from .adaptive import ImageBudget
from .config import Ratio
from .norms import require_finite


class SkipReason(StrEnum):
    """Why a prompt was left as it was."""

    DISABLED = "disabled"
    NO_VISUAL_TOKENS = "no visual tokens"
    TOO_FEW = "fewer visual tokens than min_visual_tokens"
    NOTHING_TO_REMOVE = "nothing to remove"
    NO_EARLY_STATES = "the engine cannot stop after an early decoder layer of this prompt"


@dataclass(frozen=True, eq=False)
class PruneReport:
    """The outcome of pruning one prompt.

    The counts are always at hand. ``kept_positions`` and :meth:`to_json` wait for the device.
    ``selection_ms`` is the host's time to choose and check; where the choice stays on a GPU and
    nothing is checked, that is the time to launch it.

    Args:
        kept: ``[k]`` int64 ascending, the surviving visual rows of the *unpruned* prompt (all of
            them where pruning was skipped), on any device.
        unverified: L2 norms of embeddings not yet known to be finite, see
            :meth:`require_finite`.
        adapted: where ``reduction_ratio`` is ``"auto"``, what was measured of each image or frame
            pair and the ratio that followed; empty where pruning was skipped before measuring.
    """

    algorithm: str
    reduction_ratio: Ratio
    visual_tokens_before: int
    prompt_tokens_before: int
    kept: Tensor
    selection_ms: float = 0.0
    skipped: str | None = None
    unverified: Tensor | None = field(default=None, repr=False)
    adapted: tuple[ImageBudget, ...] = ()

    def require_finite(self) -> None:
        """Make up for the check of the embeddings that ``prune`` put off.

        Call it once per prompt when the host waits for the device anyway, before the first token
        is passed on. Where ``prune`` has checked already, which is always so on a CPU, this does
        nothing.

        Raises:
            RequestError: the embeddings hold NaN or Inf.
        """
        if self.unverified is not None:
            require_finite(self.unverified)

    @cached_property
    def kept_positions(self) -> tuple[int, ...]:
        """``kept`` as plain numbers."""
        return tuple(self.kept.tolist())

    @property
    def visual_tokens_after(self) -> int:
        return len(self.kept)

    @property
    def pruned_tokens(self) -> int:
        return self.visual_tokens_before - self.visual_tokens_after

    @property
    def prompt_tokens_after(self) -> int:
        return self.prompt_tokens_before - self.pruned_tokens

    def to_json(self) -> dict[str, Any]:
        """Return plain values only, ready for ``json.dumps``."""
        return {
            "algorithm": self.algorithm,
            "reduction_ratio": self.reduction_ratio,
            "adapted": [image.to_json() for image in self.adapted],
            "visual_tokens_before": self.visual_tokens_before,
            "visual_tokens_after": self.visual_tokens_after,
            "prompt_tokens_before": self.prompt_tokens_before,
            "prompt_tokens_after": self.prompt_tokens_after,
            "pruned_tokens": self.pruned_tokens,
            "skipped": None if self.skipped is None else str(self.skipped),
            "selection_ms": self.selection_ms,
            "kept_positions": list(self.kept_positions),
        }
