"""Synthetic prompts for benchmarks: the shapes of real ones, with random contents."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..core import PipelineIO, VisualSpan

_TEXT = 12  # tokens before, between and after the images


@dataclass(frozen=True)
class PromptShape:
    """``images`` spans of ``tokens`` visual tokens each, between a few tokens of text."""

    images: int
    tokens: int
    hidden: int
    planes: int = 3

    def __str__(self) -> str:
        return f"{self.images} x {self.tokens} x {self.hidden}"

    def make(self, seed: int, dtype: torch.dtype, device: torch.device, ties: bool) -> PipelineIO:
        """A prompt of normal embeddings or, with ``ties``, of -1, 0 and 1.

        The latter make every sum exact in any order, and tokens equal: every sixteenth repeats one
        of the first sixteen.
        """
        generator = torch.Generator(device).manual_seed(seed)
        step = self.tokens + _TEXT
        length = self.images * step + _TEXT
        size = (length, self.hidden)
        if ties:
            embeds = torch.randint(-1, 2, size, generator=generator, device=device).to(dtype)
            repeated = torch.arange(16, length, 16, device=device)
            embeds[repeated] = embeds[repeated // 16 % 16]
        else:
            common = torch.randn(self.hidden, generator=generator, device=device)
            embeds = torch.randn(size, generator=generator, device=device).add_(common).to(dtype)
        starts = [_TEXT + image * step for image in range(self.images)]
        spans = [VisualSpan(start, start + self.tokens, i) for i, start in enumerate(starts)]
        row = torch.arange(length, device=device)
        return PipelineIO(
            token_ids=row,
            embeds=embeds,
            deepstack=torch.stack([embeds.roll(plane + 1, 0) for plane in range(self.planes)]),
            positions=torch.stack((row, row + 1, row + 2)),
            spans=tuple(spans),
            next_position=length + 2,
        )
