"""The torch backend's vision tower."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ...core import EngineLimits
from ...models import VisionConfig, VisionTower
from .base import PatchAttention, VisionBatch, VisionOutput
from .torch_network import materialise
from .torch_operators import VisionOperators


class TorchVisionEngine:
    """Eager vision tower; see :class:`~edgevlm.runtime.engines.base.VisionEngine`.

    Args:
        importance_layer: the layer whose attention it can deliver; ``None``: no layer's.
    """

    def __init__(
        self,
        config: VisionConfig,
        limits: EngineLimits,
        state: Mapping[str, Tensor],
        dtype: torch.dtype,
        device: torch.device,
        importance_layer: int | None = None,
    ) -> None:
        self.limits, self.dtype, self.device = limits, dtype, device
        self._importance_layer = importance_layer
        self._model = materialise(VisionTower, config, state, dtype, device)

    @torch.inference_mode()
    def encode(self, batch: VisionBatch, *, attention: bool = False) -> VisionOutput:
        watched = self._importance_layer if attention else None
        ops = _WatchingOperators(batch.patch_lengths, batch.patches.shape[1], watched)
        embeds, planes = self._model(
            batch.patches,
            batch.rope_cos,
            batch.rope_sin,
            batch.pos_indices,
            batch.pos_weights,
            ops,
        )
        return VisionOutput(embeds, torch.stack(planes), ops.attention)


class _WatchingOperators(VisionOperators):
    """Keeps the queries and keys of one layer, and the log-sum-exp where there is one to be had."""

    def __init__(self, patch_lengths: Tensor, padded: int, watched: int | None) -> None:
        super().__init__(patch_lengths, padded)
        self._watched = watched
        self.attention: PatchAttention | None = None

    def attend(self, q: Tensor, k: Tensor, v: Tensor, layer: int) -> Tensor:
        if layer != self._watched:
            return super().attend(q, k, v, layer)
        out: Tensor
        log_sum_exp: Tensor | None = None
        if _flash_applies(q, k, v, self._mask):
            out, log_sum_exp = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v)[:2]
        else:
            out = super().attend(q, k, v, layer)
        self.attention = PatchAttention(q, k, log_sum_exp)
        return out


def _flash_applies(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> bool:
    """Whether torch's own flash attention, the kernel that returns the log-sum-exp, takes these."""
    if not q.is_cuda:
        return False
    parameters = torch.backends.cuda.SDPAParams(q, k, v, mask, 0.0, False, False)
    return bool(torch.backends.cuda.can_use_flash_attention(parameters))
