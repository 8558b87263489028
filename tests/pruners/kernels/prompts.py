"""Prompts for the kernels, with everything that a kernel may ask for beside them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from edgevlm.core import PipelineIO
from edgevlm.pruners import PruneRequest, VisualPrunerConfig
from edgevlm.pruners.kernels.places import place_table
from edgevlm.pruners.layout import Layout

from ..helpers import make_io

# Lengths and spans: one span, none in front, adjacent ones, one token, no text, larger than a block
LAYOUTS = [
    (40, [(3, 36)]),
    (30, [(0, 9), (9, 10), (12, 29)]),
    (24, [(0, 24)]),
    (95, [(1, 66), (70, 95)]),
]


@dataclass(frozen=True)
class Prompt:
    """``io`` and its layout, each span keeping what ``ratio`` leaves."""

    io: PipelineIO
    ratio: float = 0.5

    @cached_property
    def request(self) -> PruneRequest:
        return PruneRequest(self.io, VisualPrunerConfig(True, reduction_ratio=self.ratio))

    @property
    def layout(self) -> Layout:
        return self.request.layout

    @cached_property
    def table(self) -> Tensor:
        return place_table(self.layout, torch.device("cpu"))

    @property
    def l1(self) -> Tensor:
        return self.request.norms.l1

    @property
    def l2(self) -> Tensor:
        return self.request.norms.l2


def prompt(length: int, spans: list[tuple[int, int]], *, ratio: float = 0.5, **made) -> Prompt:
    return Prompt(make_io(length, spans, **made), ratio)


def coarse(length: int, hidden: int, seed: int) -> Tensor:
    """Embeddings of -1, 0 and 1: sums are exact in any order, and many tokens tie."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-1, 2, (length, hidden), generator=generator).float()
