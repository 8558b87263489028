"""A prompt made up for a test."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from edgevlm.core import PipelineIO, VisualSpan


def make_io(
    length: int,
    spans: Sequence[tuple[int, int]],
    *,
    embeds: Tensor | None = None,
    hidden: int = 8,
    planes: int = 3,
    importance: bool = False,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> PipelineIO:
    """A prompt of ``length`` tokens whose ``spans`` ``(start, end)`` are visual, one media each.

    ``embeds [length,hidden]`` are normal unless given. Token ids are 100 + row and all three
    positions of a row are distinct from every other row's, so a test sees which rows survived;
    ``next_position`` is larger than any row would suggest.
    """
    generator = torch.Generator().manual_seed(seed)
    if embeds is None:
        embeds = torch.randn(length, hidden, generator=generator)
    visual = torch.zeros(length)
    for start, end in spans:
        visual[start:end] = 1
    noise = torch.randn(planes, length, embeds.shape[1], generator=generator)
    row = torch.arange(length)
    return PipelineIO(
        token_ids=row + 100,
        embeds=embeds.to(dtype),
        deepstack=(noise * visual[:, None]).to(dtype),
        positions=torch.stack((row, 2 * row + 1, 3 * row + 2)),
        spans=tuple(VisualSpan(start, end, media) for media, (start, end) in enumerate(spans)),
        next_position=4 * length,
        importance=torch.rand(length, generator=generator) * visual if importance else None,
    )
