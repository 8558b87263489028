"""The assembled prompt of one request: what a pruner shortens and an engine prefills."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class VisualSpan:
    """Consecutive visual tokens ``[start, end)`` of one image or one video frame pair.

    ``media`` is the 0-based index of the image or video in its request.
    """

    start: int
    end: int
    media: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise ValueError(
                f"a visual span needs 0 <= start < end, got [{self.start}, {self.end})"
            )

    def __len__(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class PipelineIO:
    """Everything the language model receives of one prompt of ``T`` tokens. Never modified.

    All tensors share one device. ``next_position`` is the mRoPE position of the first generated
    token (the *unpruned* maximum + 1); it never changes when tokens are dropped.
    """

    token_ids: Tensor  # [T] int64
    embeds: Tensor  # [T,H] engine dtype, visual rows already in place
    deepstack: Tensor  # [P,T,H] engine dtype, zeros where a token is not visual
    positions: Tensor  # [3,T] int64: time, height, width
    spans: tuple[VisualSpan, ...]  # ascending, disjoint
    next_position: int
    importance: Tensor | None = None  # [T] fp32, larger is more important; zeros for text

    def __post_init__(self) -> None:
        length, hidden = self.embeds.shape
        expected = {
            "token_ids": (self.token_ids.shape, (length,)),
            "deepstack": (self.deepstack.shape[1:], (length, hidden)),
            "positions": (self.positions.shape, (3, length)),
        }
        if self.importance is not None:
            expected["importance"] = (self.importance.shape, (length,))
        for name, (found, wanted) in expected.items():
            if tuple(found) != wanted:
                raise ValueError(f"{name} has shape {tuple(found)}, the embeddings want {wanted}")
        end = 0
        for span in self.spans:
            if span.start < end or span.end > length:
                raise ValueError(f"visual spans must ascend inside 0..{length}: {self.spans}")
            end = span.end

    def __len__(self) -> int:
        return int(self.embeds.shape[0])

    @property
    def visual_tokens(self) -> int:
        return sum(len(span) for span in self.spans)
