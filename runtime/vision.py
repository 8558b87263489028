"""Running the vision engine over a request's images: grouped by size, geometry cached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ..models import VisionConfig, position_interpolation, vision_cos_sin
from ..pruners.attention_importance import attention_importance, merged_importance
from .engines import PatchAttention, VisionBatch, VisionEngine
from .prompt import VisualItem


@dataclass(frozen=True)
class VisualFeatures:
    """What the language model receives of one image or frame pair of ``n`` visual tokens."""

    embeds: Tensor  # [n,H]
    planes: Tensor  # [P,n,H]
    importance: Tensor | None = None  # [n] fp32: attention its patches receive, 4n in all


@dataclass(frozen=True)
class _Geometry:
    """Per-patch inputs that follow from the patch grid alone."""

    rope_cos: Tensor  # [N,D/2]
    rope_sin: Tensor  # [N,D/2]
    pos_indices: Tensor  # [N,4]
    pos_weights: Tensor  # [N,4]


class VisionRunner:
    """Encodes visual items in as few engine calls as their sizes allow.

    Items of one patch count share a call, so nothing is padded; a call holds at most
    ``max_patches`` patches, which bounds its memory.
    """

    def __init__(self, engine: VisionEngine, config: VisionConfig, max_patches: int) -> None:
        self._engine = engine
        self._max_patches = max_patches
        self._geometry = lru_cache(maxsize=32)(self._make_geometry)
        self._config = config

    def encode(
        self, items: Sequence[VisualItem], *, importance: bool = False
    ) -> list[VisualFeatures]:
        """Features of every item, in order.

        Args:
            importance: whether to compute it too, where the engine delivers what it takes.
        """
        groups: dict[int, list[int]] = {}
        for index, item in enumerate(items):
            groups.setdefault(item.patches.shape[0], []).append(index)
        features: dict[int, VisualFeatures] = {}
        for patches, members in groups.items():
            step = max(1, self._max_patches // patches)
            for begin in range(0, len(members), step):
                chunk = members[begin : begin + step]
                batch = self._batch([items[i] for i in chunk])
                output = self._engine.encode(batch, attention=importance)
                scores = self._importance(output.attention)  # [I,N/4]
                for row, index in enumerate(chunk):
                    features[index] = VisualFeatures(
                        output.embeds[row],
                        output.planes[:, row],
                        None if scores is None else scores[row],
                    )
        return [features[index] for index in range(len(items))]

    def _importance(self, attention: PatchAttention | None) -> Tensor | None:
        if attention is None:
            return None
        patches = attention_importance(attention.q, attention.k, lse=attention.log_sum_exp)  # [I,N]
        return merged_importance(patches, self._config.merge_unit)

    def _batch(self, items: Sequence[VisualItem]) -> VisionBatch:
        engine = self._engine
        geometry = [self._geometry(item.grid) for item in items]
        patches = torch.stack([item.patches for item in items])  # [I,N,patch_dim]
        return VisionBatch(
            patches=patches.to(engine.device, engine.dtype),
            rope_cos=torch.stack([g.rope_cos for g in geometry]),
            rope_sin=torch.stack([g.rope_sin for g in geometry]),
            pos_indices=torch.stack([g.pos_indices for g in geometry]),
            pos_weights=torch.stack([g.pos_weights for g in geometry]),
            patch_lengths=torch.full((len(items),), patches.shape[1], device=engine.device),
        )

    def _make_geometry(self, grid: tuple[int, int]) -> _Geometry:
        device, dtype = self._engine.device, self._engine.dtype
        cos, sin = vision_cos_sin(*grid, self._config, dtype)
        indices, weights = position_interpolation(*grid, self._config)
        return _Geometry(
            cos.to(device), sin.to(device), indices.to(device), weights.to(device, dtype)
        )
