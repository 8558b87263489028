"""Prefill and decode over the fused network, each as one CUDA graph per size."""

from __future__ import annotations

import torch
from torch import Tensor

from ...core import EngineLimits, PipelineIO
from ...models import TextConfig, mrope_cos_sin
from .base import DecodeBatch
from .torch_experts import PromptRoute, TokenRoute
from .torch_fused import FusedNetwork
from .torch_graphs import GraphCache
from .torch_inputs import BatchInputs, PromptInputs, batch_bucket, prompt_bucket
from .torch_steps import Rows


class CapturedExecutor:
    """Runs a :class:`FusedNetwork`.

    Prompts are padded to a bucket and batches beyond 8 to a multiple of 8, so that few sizes
    occur; what pads a prompt comes after its last row and writes behind it in the cache, where
    nothing is attended before it is overwritten. Prompts in two stages are not captured: their
    kernels are few and take the GPU longer than launching them takes the host.
    """

    def __init__(
        self, network: FusedNetwork, config: TextConfig, limits: EngineLimits, graphs: GraphCache
    ) -> None:
        self._network, self._config, self._limits, self._graphs = network, config, limits, graphs
        weight = network.weights.lm_head
        self._dtype, self._device = weight.dtype, weight.device
        self._batch = BatchInputs(limits.max_batch, config.hidden_size, self._dtype, self._device)
        self._prompts: dict[int, PromptInputs] = {}
        self.caches, self.experts = network.caches, network.experts

    def prefill(self, slot: int, io: PipelineIO) -> Tensor:
        bucket, planes = prompt_bucket(len(io)), len(io.deepstack)
        inputs = self._prompts.get(planes)
        if inputs is None:
            rows = prompt_bucket(self._limits.max_input_len)
            inputs = PromptInputs(rows, io.embeds.shape[1], planes, self._dtype, self._device)
            self._prompts[planes] = inputs
        inputs.fill(slot, io, bucket)
        if self.experts.limits_prompts:
            inputs.mark(io, bucket)
        self.experts.begin_prompt()
        key = ("prefill", bucket, planes, self.experts.variant)
        return self._graphs.run(key, lambda: self._prompt(inputs, bucket))[0]

    def decode(self, batch: DecodeBatch) -> Tensor:
        bucket = batch_bucket(len(batch), self._limits.max_batch)
        self._batch.fill(batch, bucket)
        if self._config.moe_layers:
            self._batch.mark(len(batch), bucket)
        self.experts.begin_decode(len(batch), batch.generated)
        key = ("decode", bucket, self.experts.variant)
        logits = self._graphs.run(key, lambda: self._tokens(bucket))
        return logits[: len(batch)]

    def layers(self, slot: int, io: PipelineIO, first: int, end: int) -> Tensor:
        """Hidden states ``[T,H]`` of a prompt behind layers ``first`` to ``end`` (excluded)."""
        return self._staged(slot, io, first, end, None)

    def norm(self, x: Tensor) -> Tensor:
        """The final norm of ``x [T,H]``."""
        return self._network.steps.norm(x, self._network.weights.norm)

    def finish(self, slot: int, io: PipelineIO, first: int) -> Tensor:
        """Logits ``[V]`` of a prompt whose embeddings enter layer ``first``."""
        last = torch.full((1,), len(io) - 1, device=self._device)
        x = self._staged(slot, io, first, self._config.num_layers, last)
        return self._network.logits(x)[0]

    def _staged(
        self, slot: int, io: PipelineIO, first: int, end: int, last: Tensor | None
    ) -> Tensor:
        if first == 0:
            self.experts.begin_prompt()
        where = torch.full((1,), slot, device=self._device)
        rows = self._prompt_rows(io.positions, where)
        x = io.embeds.clone(memory_format=torch.contiguous_format)
        route = PromptRoute.of(self.experts, io)
        return self._layers(x, rows, io.deepstack, first, end, last, route)

    def _prompt(self, inputs: PromptInputs, bucket: int) -> Tensor:
        rows = self._prompt_rows(inputs.positions[:, :bucket], inputs.slot)
        x = self._layers(
            inputs.embeds[:bucket],  # overwritten, and filled again before it is next read
            rows,
            inputs.planes[:, :bucket],
            0,
            self._config.num_layers,
            inputs.last,
            PromptRoute(self.experts, inputs.used[:bucket], inputs.visual[:bucket]),
        )
        return self._network.logits(x)  # [1,V]

    def _layers(
        self,
        x: Tensor,
        rows: Rows,
        planes: Tensor,
        first: int,
        end: int,
        last: Tensor | None,
        route: PromptRoute,
    ) -> Tensor:
        """See :meth:`FusedNetwork.prompt`."""
        if last is not None and self.experts.limits_prompts:
            # The last row's experts depend on all rows, so none can be left out.
            return self._network.prompt(x, rows, planes, first, end, None, route)[last]
        return self._network.prompt(x, rows, planes, first, end, last, route)

    def _tokens(self, bucket: int) -> Tensor:
        inputs = self._batch
        positions = inputs.positions[:bucket].expand(3, -1)
        cos, sin = mrope_cos_sin(positions, self._config, self._dtype)
        # Copies, as kernels take contiguous tensors.
        slots, places = inputs.slots[:bucket].clone(), inputs.places[:bucket].clone()
        x = self._network.tokens(
            inputs.embeds[:bucket].clone(),
            Rows(cos, sin, slots, places),
            TokenRoute(self.experts, inputs.used[:bucket]),
        )
        return self._network.logits(x)  # [n,V]

    def _prompt_rows(self, positions: Tensor, slot: Tensor) -> Rows:
        """``positions [3,R]`` and ``slot [1]``."""
        count = positions.shape[1]
        cos, sin = mrope_cos_sin(positions, self._config, self._dtype)
        places = torch.arange(count, device=self._device)
        return Rows(cos, sin, slot.repeat(count), places)
