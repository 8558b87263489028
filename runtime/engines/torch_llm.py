"""The torch backend's language model: the reference, and the GPU path without TensorRT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from ...core import EngineLimits, PipelineIO, RequestError
from ...models import TextConfig, TextModel
from ...plugins.parallel import ExpertParallel
from ...pruners import EarlyStates
from .base import DecodeBatch
from .routing import RoutingControl, RoutingTotals
from .torch_captured import CapturedExecutor
from .torch_experts import ExpertHost
from .torch_fused import FusedNetwork
from .torch_graphs import GraphCache, cuda_recorder
from .torch_inputs import prompt_bucket
from .torch_network import materialise
from .torch_plain import PlainExecutor
from .torch_steps import LayerCache


class Executor(Protocol):
    """How the network is run; it owns the KV cache, one :class:`LayerCache` per layer, and what
    is done to the experts' routing."""

    caches: list[LayerCache]
    experts: ExpertHost

    def prefill(self, slot: int, io: PipelineIO) -> Tensor: ...

    def decode(self, batch: DecodeBatch) -> Tensor: ...

    def layers(self, slot: int, io: PipelineIO, first: int, end: int) -> Tensor: ...

    def norm(self, x: Tensor) -> Tensor: ...

    def finish(self, slot: int, io: PipelineIO, first: int) -> Tensor: ...


class TorchLLMEngine:
    """Language model in torch; see :class:`~edgevlm.runtime.engines.base.LLMEngine`,
    :class:`~edgevlm.runtime.engines.staged.StagedPrefill` and
    :class:`~edgevlm.runtime.engines.routing.ControlledExperts`.

    Args:
        state: weights in the names of :class:`~edgevlm.models.TextModel`, any dtype, any device.
        embedding_table: ``[V,H]``; the tensor of ``lm_head.weight`` itself where weights are tied.
        fused: run few large kernels instead of operator by operator; ``None`` for on CUDA only.
            Triton and the C compiler it needs are used where they work, else torch's operators.
        max_graphs: CUDA graphs to keep, one per batch size and per padded prompt length in use;
            0 captures none.
        expert_parallel: share the experts with the other ranks of the default process group, all
            of which go through the same steps together.
    """

    def __init__(
        self,
        config: TextConfig,
        limits: EngineLimits,
        state: Mapping[str, Tensor],
        embedding_table: Tensor,
        dtype: torch.dtype,
        device: torch.device,
        *,
        fused: bool | None = None,
        max_graphs: int = 32,
        expert_parallel: bool = False,
    ) -> None:
        self.limits, self.dtype, self.device = limits, dtype, device
        self._num_layers = config.num_layers
        parallel = (
            ExpertParallel(config.moe.num_experts) if expert_parallel and config.moe else None
        )
        self._executor: Executor
        on_cuda = device.type == "cuda"
        if on_cuda if fused is None else fused:
            # A prompt's padding may reach beyond its bounds, also in the cache.
            capacity = max(limits.max_kv_len, prompt_bucket(limits.max_input_len))
            network = FusedNetwork(
                config, limits, state, dtype, device, capacity, parallel=parallel
            )
            # Who sends how much to whom is read on the host, which no graph can hold.
            most = max_graphs if on_cuda and parallel is None else 0
            graphs = GraphCache(most, cuda_recorder(device))
            self._executor = CapturedExecutor(network, config, limits, graphs)
            head = network.weights.lm_head
        else:
            self._model = materialise(TextModel, config, state, dtype, device)
            self._executor = PlainExecutor(self._model, config, limits, parallel)
            head = self._model.lm_head.weight
        tied = embedding_table is state["lm_head.weight"]
        self.embedding_table = head if tied else embedding_table.to(device, dtype)

    @torch.inference_mode()
    def prefill(self, slot: int, io: PipelineIO) -> Tensor:
        return self._executor.prefill(slot, io)

    @torch.inference_mode()
    def decode(self, batch: DecodeBatch) -> Tensor:
        return self._executor.decode(batch)

    @torch.inference_mode()
    def move_slot(self, source: int, target: int, length: int) -> None:
        for cache in self._executor.caches:
            for tensor in (cache.k, cache.v):
                tensor[target, :, :length] = tensor[source, :, :length]

    @torch.inference_mode()
    def control_experts(self, control: RoutingControl) -> None:
        self._executor.experts.control(control)

    def routing_totals(self) -> RoutingTotals:
        return self._executor.experts.totals()

    @torch.inference_mode()
    def begin(self, slot: int, io: PipelineIO, layers: int) -> EarlyStates:
        if not 0 < layers < self._num_layers:
            raise RequestError(
                f"the model has {self._num_layers} decoder layers; a prompt can be pruned after 1"
                f" to {self._num_layers - 1} of them, not {layers}"
            )
        hidden = self._executor.layers(slot, io, 0, layers)  # [T,H]
        keys = self._executor.caches[layers - 1].k[slot, :, : len(io)]  # [Hkv,T,D]
        return EarlyStates(
            io=replace(io, embeds=hidden),
            layers=layers,
            keys=keys.transpose(0, 1).flatten(1),
            normed=self._executor.norm(hidden),
        )

    @torch.inference_mode()
    def finish(self, slot: int, io: PipelineIO, layers: int, rows: Tensor) -> Tensor:
        for cache in self._executor.caches[:layers]:
            for tensor in (cache.k, cache.v):
                tensor[slot, :, : len(rows)] = tensor[slot][:, rows]
        return self._executor.finish(slot, io, layers)
