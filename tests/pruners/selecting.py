"""Running one pruner on one prompt, whatever name it is registered under."""

from __future__ import annotations

from dataclasses import replace

import torch

from edgevlm.core import PipelineIO
from edgevlm.pruners import VisualPrunerConfig, VisualTokenPruner

from .helpers import make_io


def kept_by(
    cls: type[VisualTokenPruner], io: PipelineIO, ratio: float = 0.5, **options: int | float | str
) -> list[int]:
    """The visual rows that ``cls`` keeps, ascending."""
    config = VisualPrunerConfig(True, "under-test", ratio, min_visual_tokens=0, options=options)
    return list(cls(config).prune(io)[1].kept_positions)


def one_image(embeds: torch.Tensor, importance: object, *, lead: int = 2) -> PipelineIO:
    """A prompt of one image with these embeddings, after ``lead`` text tokens."""
    text = torch.ones(lead, embeds.shape[1])
    io = make_io(lead + len(embeds), [(lead, lead + len(embeds))], embeds=torch.cat((text, embeds)))
    values = torch.as_tensor(importance, dtype=torch.float32)
    return replace(io, importance=torch.cat((torch.zeros(lead), values)))


def signed_units(draws: list[int]) -> torch.Tensor:
    """Rows ``[n,4]`` that are zero or a signed unit vector: all their cosines are -1, 0 or 1."""
    rows = torch.zeros(len(draws), 4)
    for row, draw in enumerate(draws):
        if draw:
            rows[row, abs(draw) - 1] = 1.0 if draw > 0 else -1.0
    return rows
