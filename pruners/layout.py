"""Where the tokens of a prompt lie before and after pruning, known without asking the device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import PipelineIO, VisualSpan


class SpanPlace(NamedTuple):
    """One span of a layout, and what precedes it."""

    start: int
    length: int
    kept: int  # how many of its tokens stay
    text_before: int  # text tokens in front of it
    kept_before: int  # kept visual tokens in front of it


@dataclass(frozen=True)
class Layout:
    """A prompt of ``length`` tokens of which ``counts[i] >= 1`` tokens of span ``i`` stay."""

    length: int
    spans: tuple[VisualSpan, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, io: PipelineIO, counts: tuple[int, ...]) -> Layout:
        return cls(len(io), io.spans, counts)

    @cached_property
    def places(self) -> tuple[SpanPlace, ...]:
        """One entry per span."""
        places, visual, kept = [], 0, 0
        for span, count in zip(self.spans, self.counts, strict=True):
            places.append(SpanPlace(span.start, len(span), count, span.start - visual, kept))
            visual += len(span)
            kept += count
        return tuple(places)

    @cached_property
    def visual_tokens(self) -> int:
        return sum(map(len, self.spans))

    @cached_property
    def kept_tokens(self) -> int:
        return sum(self.counts)

    @property
    def text_tokens(self) -> int:
        return self.length - self.visual_tokens

    @property
    def pruned_length(self) -> int:
        return self.text_tokens + self.kept_tokens

    @cached_property
    def closed_spans(self) -> tuple[VisualSpan, ...]:
        """The spans once the rows have closed up."""
        closed = []
        for span, place in zip(self.spans, self.places, strict=True):
            start = place.text_before + place.kept_before
            closed.append(replace(span, start=start, end=start + place.kept))
        return tuple(closed)

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Where text is, ``[start, end)`` before, between and after the spans; may be empty."""
        edges = [0, *(edge for span in self.spans for edge in (span.start, span.end)), self.length]
        return list(pairwise(edges))[::2]

    def text_rows(self, device: torch.device) -> Tensor:
        """Ascending rows of all text, ``[.]`` int64."""
        return torch.cat([torch.arange(*gap, device=device) for gap in self.gaps])

    def surviving_rows(self, kept: Tensor) -> Tensor:
        """All rows that stay, ``[K]`` int64 ascending, given the visual ones ``kept [k]``."""
        first, *others = (torch.arange(*gap, device=kept.device) for gap in self.gaps)
        pieces = [first]
        for place, text in zip(self.places, others, strict=True):
            pieces += (kept[place.kept_before : place.kept_before + place.kept], text)
        return torch.cat(pieces)
