"""The ONNX Runtime backend's vision tower."""

from __future__ import annotations

import torch

from ...core import EngineLimits
from ...models import VisionConfig
from .base import PatchAttention, VisionBatch, VisionOutput
from .onnx_session import CPU, OnnxSession


class OnnxVisionEngine:
    """Vision tower through ONNX Runtime; see :class:`~edgevlm.runtime.engines.VisionEngine`.

    Args:
        has_attention: whether the graph has the outputs ``importance_q`` and ``importance_k``.
    """

    device = CPU

    def __init__(
        self,
        session: OnnxSession,
        config: VisionConfig,
        limits: EngineLimits,
        dtype: torch.dtype,
        has_attention: bool = False,
    ) -> None:
        self.limits, self.dtype = limits, dtype
        self._has_attention = has_attention
        self._session, self._config = session, config

    @torch.inference_mode()
    def encode(self, batch: VisionBatch, *, attention: bool = False) -> VisionOutput:
        config = self._config
        images, patches, _ = batch.patches.shape
        shape = (images, patches // config.merge_unit, config.out_hidden_size)
        embeds = torch.empty(shape, dtype=self.dtype)  # [I,N/4,H]
        planes = torch.empty((len(config.deepstack_layers), *shape), dtype=self.dtype)
        inputs = {
            "patches": batch.patches.contiguous(),
            "rope_cos": batch.rope_cos.contiguous(),
            "rope_sin": batch.rope_sin.contiguous(),
            "pos_indices": batch.pos_indices.contiguous(),
            "pos_weights": batch.pos_weights.contiguous(),
            "patch_lengths": batch.patch_lengths,
        }
        outputs = {"embeds": embeds}
        outputs.update({f"deepstack_{plane}": rows for plane, rows in enumerate(planes)})
        watched = None
        if attention and self._has_attention:
            heads = (images, config.num_heads, patches, config.head_dim)
            watched = PatchAttention(*torch.empty((2, *heads), dtype=self.dtype))
            outputs |= {"importance_q": watched.q, "importance_k": watched.k}
        self._session.run(inputs, outputs)
        return VisionOutput(embeds, planes, watched)
