"""The vision tower as a TensorRT engine."""

from __future__ import annotations

import torch
from torch import Tensor

from ...core import EngineLimits, RequestError
from ...models import VisionConfig
from .base import PatchAttention, VisionBatch, VisionOutput
from .tensorrt_device import Device
from .tensorrt_program import TensorRTProgram


class TensorRTVisionEngine:
    """Vision tower through TensorRT; see :class:`~edgevlm.runtime.engines.VisionEngine`.

    A call with more images than the engine was built for is carried out in several.

    Args:
        has_attention: whether the engine has the outputs ``importance_q`` and ``importance_k``.
    """

    def __init__(
        self,
        program: TensorRTProgram,
        device: Device,
        config: VisionConfig,
        limits: EngineLimits,
        dtype: torch.dtype,
        has_attention: bool,
    ) -> None:
        self.limits, self.dtype = limits, dtype
        self.device = device.torch_device
        self._program, self._gpu, self._config = program, device, config
        self._has_attention = has_attention
        self._context = program.context(0, fixed_shapes=False)

    @torch.inference_mode()
    def encode(self, batch: VisionBatch, *, attention: bool = False) -> VisionOutput:
        config = self._config
        images, patches, _ = batch.patches.shape
        tokens = patches // config.merge_unit
        if tokens > self.limits.max_image_tokens:
            raise RequestError(
                f"an image has {tokens} visual tokens, the engine's profile takes"
                f" {self.limits.max_image_tokens}; use a smaller image or rebuild with a larger"
                " --max-image-tokens"
            )
        shape = (images, tokens, config.out_hidden_size)
        embeds = self._empty(shape)  # [I,N/4,H]
        planes = self._empty((len(config.deepstack_layers), *shape))
        outputs = {"embeds": embeds}
        outputs |= {f"deepstack_{plane}": rows for plane, rows in enumerate(planes)}
        watched = None
        if self._has_attention:  # every output must be bound, wanted or not
            heads = (images, config.num_heads, patches, config.head_dim)
            watched = PatchAttention(self._empty(heads), self._empty(heads))
            outputs |= {"importance_q": watched.q, "importance_k": watched.k}
        for begin in range(0, images, self.limits.max_images):
            self._run(batch, outputs, slice(begin, begin + self.limits.max_images))
        return VisionOutput(embeds, planes, watched if attention else None)

    def _empty(self, shape: tuple[int, ...]) -> Tensor:
        return torch.empty(shape, dtype=self.dtype, device=self.device)

    def _run(self, batch: VisionBatch, outputs: dict[str, Tensor], images: slice) -> None:
        inputs = {
            "patches": batch.patches,
            "rope_cos": batch.rope_cos,
            "rope_sin": batch.rope_sin,
            "pos_indices": batch.pos_indices,
            "pos_weights": batch.pos_weights,
            "patch_lengths": batch.patch_lengths,
        }
        with self._gpu.ordered():
            self._context.bind(
                {name: tensor[images].contiguous() for name, tensor in inputs.items()},
                {name: tensor[images] for name, tensor in outputs.items()},
            )
            self._context.enqueue()
