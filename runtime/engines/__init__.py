"""Engines: one class per backend behind two protocols, opened from engine directories."""

from .base import (
    DecodeBatch,
    LLMEngine,
    PatchAttention,
    VisionBatch,
    VisionEngine,
    VisionOutput,
)
from .opening import BACKENDS, Backend, OpenedEngines, Opening, open_engines
from .staged import StagedPrefill

__all__ = [
    "BACKENDS",
    "Backend",
    "DecodeBatch",
    "LLMEngine",
    "OpenedEngines",
    "Opening",
    "PatchAttention",
    "StagedPrefill",
    "VisionBatch",
    "VisionEngine",
    "VisionOutput",
    "open_engines",
]
