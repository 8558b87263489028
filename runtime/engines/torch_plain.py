"""The language model operator by operator: the reference, on any device."""

from __future__ import annotations

import torch
from torch import Tensor

from ...core import EngineLimits, PipelineIO
from ...models import TextConfig, TextModel, mrope_cos_sin
from ...plugins.parallel import ExpertParallel
from .base import DecodeBatch
from .torch_experts import ExpertHost
from .torch_operators import DecodeOperators, PrefillOperators
from .torch_steps import LayerCache


class PlainExecutor:
    """Runs :class:`~edgevlm.models.TextModel` eagerly, keeping its KV cache.

    Args:
        model: with weights of the dtype and on the device to compute with.
    """

    def __init__(
        self,
        model: TextModel,
        config: TextConfig,
        limits: EngineLimits,
        parallel: ExpertParallel | None = None,
    ) -> None:
        self._model, self._config = model, config
        self.experts = ExpertHost(config, model.lm_head.weight.device, parallel)
        weight = model.lm_head.weight
        self._dtype, self._device = weight.dtype, weight.device
        shape = (limits.max_batch, config.num_kv_heads, limits.max_kv_len, config.head_dim)
        self.caches = [
            LayerCache(*(weight.new_zeros(shape) for _ in range(2)))
            for _ in range(config.num_layers)
        ]

    def prefill(self, slot: int, io: PipelineIO) -> Tensor:
        self.experts.begin_prompt()
        ops = PrefillOperators(self.caches, slot, self.experts, io)
        last = torch.tensor([len(io) - 1], device=self._device)
        deepstack = [plane[None] for plane in io.deepstack]  # each [1,T,H]
        logits: Tensor = self._model(
            io.embeds[None], *self._angles(io.positions[:, None]), deepstack, last, ops
        )
        return logits[0]

    def decode(self, batch: DecodeBatch) -> Tensor:
        self.experts.begin_decode(len(batch), batch.generated)
        ops = DecodeOperators(self.caches, batch.lengths, self.experts)
        positions = batch.positions[None, :, None].expand(3, -1, -1)  # [3,n,1]
        last = torch.zeros(len(batch), dtype=torch.int64, device=self._device)
        logits: Tensor = self._model(batch.embeds[:, None], *self._angles(positions), [], last, ops)
        return logits

    def layers(self, slot: int, io: PipelineIO, first: int, end: int) -> Tensor:
        """Hidden states ``[T,H]`` of a prompt behind layers ``first`` to ``end`` (excluded)."""
        if first == 0:
            self.experts.begin_prompt()
        ops = PrefillOperators(self.caches, slot, self.experts, io)
        cos, sin = self._angles(io.positions[:, None])
        x = io.embeds[None]  # [1,T,H]
        for index in range(first, end):
            x = self._model.layers[index](x, cos, sin, ops)
            if index < len(io.deepstack):
                x = x + io.deepstack[index]
        return x[0]

    def norm(self, x: Tensor) -> Tensor:
        """The final norm of ``x [T,H]``."""
        normed: Tensor = self._model.norm(x)
        return normed

    def finish(self, slot: int, io: PipelineIO, first: int) -> Tensor:
        """Logits ``[V]`` of a prompt whose embeddings enter layer ``first``."""
        x = self.layers(slot, io, first, self._config.num_layers)
        logits: Tensor = self._model.lm_head(self.norm(x[-1]))
        return logits.float()

    def _angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        return mrope_cos_sin(positions, self._config, self._dtype)
