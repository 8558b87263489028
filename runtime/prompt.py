"""A request on its way to the networks: token ids, positions, and the patches of its media."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

from torch import Tensor

from ..core import VisualSpan


@dataclass(frozen=True)
class MediaMarkers:
    """The tokens that mark media in a prompt, as the checkpoint spells them."""

    start: str
    end: str
    image: str
    video: str


@dataclass(frozen=True)
class VisualItem:
    """What the vision tower sees at once: an image, or one frame group of a video."""

    patches: Tensor  # [N,P] fp32, merge-block order
    grid: tuple[int, int]  # rows, columns of patches; N of them in all
    media: int  # index of the image or video in the request
    seconds: float | None = None  # the time of a frame group; None for an image


@dataclass(frozen=True)
class VisualPlacement:
    """Where the ``rows x columns`` visual tokens of one item stand in the unpruned prompt.

    They run row by row from ``start`` and cover the whole image evenly.
    """

    media: int
    start: int
    rows: int
    columns: int
    seconds: float | None = None


@dataclass(frozen=True)
class PreparedPrompt:
    """A request, ready for the vision tower and the language model, ``T`` tokens long.

    ``spans[i]`` is where the visual tokens of ``media[i]`` belong.
    """

    text: str  # as the chat template rendered it, one placeholder per image or video
    token_ids: Tensor  # [T] int64
    positions: Tensor  # [3,T] int64: time, height, width
    next_position: int  # of the first generated token, on all three axes
    spans: tuple[VisualSpan, ...]
    media: tuple[VisualItem, ...]
    decode_ms: float  # reading and decoding files
    patch_ms: float  # resizing, normalising and cutting into patches
    notes: tuple[str, ...]  # what the engine's limits changed, one line each
    shrunk_tokens: int = 0  # visual tokens the media would have had more, had they not been shrunk

    @property
    def placements(self) -> tuple[VisualPlacement, ...]:
        """One per visual item, in order."""
        return tuple(
            VisualPlacement(item.media, span.start, *_merged(item, len(span)), item.seconds)
            for item, span in zip(self.media, self.spans, strict=True)
        )


def _merged(item: VisualItem, tokens: int) -> tuple[int, int]:
    """The item's grid in visual tokens, each of which is a square of patches."""
    side = isqrt(len(item.patches) // tokens)
    return item.grid[0] // side, item.grid[1] // side
