"""What a backend must offer. One class per backend implements each protocol.

Torch tensors are the currency: every tensor that crosses these methods lives on ``device``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ...core import EngineLimits, PipelineIO


@dataclass(frozen=True)
class DecodeBatch:
    """One decode step over slots ``0..n-1``; row ``i`` belongs to slot ``i``.

    ``lengths[i]`` counts the KV slots that sequence ``i`` has filled before this step;
    ``generated`` is the number of tokens that the shortest answer has so far.
    """

    embeds: Tensor  # [n,H] engine dtype
    positions: Tensor  # [n] int64: one mRoPE position, the same on all three axes
    lengths: tuple[int, ...]  # [n]
    generated: int = 0

    def __post_init__(self) -> None:
        rows = {int(self.embeds.shape[0]), int(self.positions.shape[0]), len(self.lengths)}
        if len(rows) != 1:
            raise ValueError(f"a decode batch needs one row per slot in every field, got {rows}")

    def __len__(self) -> int:
        return len(self.lengths)


@dataclass(frozen=True)
class VisionBatch:
    """``I`` images or frame pairs, padded to ``N`` patches each."""

    patches: Tensor  # [I,N,patch_dim] engine dtype
    rope_cos: Tensor  # [I,N,D/2] engine dtype
    rope_sin: Tensor  # [I,N,D/2] engine dtype
    pos_indices: Tensor  # [I,N,4] int64
    pos_weights: Tensor  # [I,N,4] engine dtype
    patch_lengths: Tensor  # [I] int64


@dataclass(frozen=True)
class PatchAttention:
    """What one layer of the vision tower attended with, from which importance is computed."""

    q: Tensor  # [I,heads,N,D] engine dtype, post-RoPE
    k: Tensor  # [I,heads,N,D] engine dtype, post-RoPE
    log_sum_exp: Tensor | None = None  # [I,heads,N] fp32 over scaled q.k, if attention left it


@dataclass(frozen=True)
class VisionOutput:
    """What the vision tower made of a batch; rows of padding mean nothing."""

    embeds: Tensor  # [I,N/4,H] engine dtype
    planes: Tensor  # [P,I,N/4,H] engine dtype
    attention: PatchAttention | None = None


class LLMEngine(Protocol):
    """The language model with its KV cache of ``limits.max_batch`` slots."""

    limits: EngineLimits
    dtype: torch.dtype
    device: torch.device
    embedding_table: Tensor  # [V,H]

    def prefill(self, slot: int, io: PipelineIO) -> Tensor:
        """Run one prompt into ``slot`` from KV position 0; returns fp32 logits ``[V]``."""

    def decode(self, batch: DecodeBatch) -> Tensor:
        """Append one token to each of the first ``len(batch)`` slots; fp32 logits ``[n,V]``."""

    def move_slot(self, source: int, target: int, length: int) -> None:
        """Copy the first ``length`` KV rows of slot ``source`` over slot ``target``."""


class VisionEngine(Protocol):
    """The vision tower."""

    limits: EngineLimits
    dtype: torch.dtype
    device: torch.device

    def encode(self, batch: VisionBatch, *, attention: bool = False) -> VisionOutput:
        """Run the tower.

        Args:
            attention: whether the caller wants ``VisionOutput.attention``, which is then set if
                the engine was built to deliver it.
        """
