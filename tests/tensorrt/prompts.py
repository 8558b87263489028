"""Prompts and torch engines for tests of one engine."""

from __future__ import annotations

from pathlib import Path

import torch

from edgevlm.core import PipelineIO
from edgevlm.models import Checkpoint
from edgevlm.runtime.engines import LLMEngine, VisionBatch, open_engines
from edgevlm.runtime.reference import open_reference

from .conftest import CHECKPOINT, LIMITS


def open_llm(engine: Path) -> LLMEngine:
    return open_engines(engine / "llm", None, None, None).llm


def reference(slots: int = 4) -> LLMEngine:
    """The torch engine in float32."""
    return open_reference(Checkpoint(CHECKPOINT), LIMITS, slots).llm


def prompt(length: int, seed: int = 0, dtype: torch.dtype = torch.float16) -> PipelineIO:
    """``length`` random tokens of the bundled checkpoint, with something in each DeepStack row."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 500, (length,), generator=generator)
    table = Checkpoint(CHECKPOINT).embedding_table()
    return PipelineIO(
        token_ids=ids,
        embeds=table[ids].to(dtype),
        deepstack=torch.randn(3, length, 256, generator=generator).to(dtype) / 4,
        positions=torch.arange(length).expand(3, -1),
        spans=(),
        next_position=length,
    )


def vision_batch(images: int, patches: int) -> VisionBatch:
    """Random patches without a geometry of their own."""
    half = torch.float16
    return VisionBatch(
        patches=torch.randn(images, patches, 1536).to(half),
        rope_cos=torch.ones(images, patches, 16, dtype=half),
        rope_sin=torch.zeros(images, patches, 16, dtype=half),
        pos_indices=torch.zeros(images, patches, 4, dtype=torch.int64),
        pos_weights=torch.full((images, patches, 4), 0.25, dtype=half),
        patch_lengths=torch.full((images,), patches),
    )
