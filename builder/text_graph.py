"""The language model as an ONNX graph."""

from __future__ import annotations

import dataclasses

import onnx
import torch
from torch import Tensor, nn

from ..core.manifest import TensorSpec
from ..models import ModelConfig, TextConfig, TextModel
from ..models.text import DecoderLayer
from .contract import Contract
from .graph_operators import BlockStandIn, TextGraphOperators
from .splice import splice
from .trace import trace


def text_graph(config: ModelConfig, contract: Contract, dtype: torch.dtype) -> onnx.GraphProto:
    """Export :class:`~edgevlm.models.TextModel` with ``contract``'s inputs and outputs."""
    planes = config.num_deepstack

    def build() -> nn.Module:
        model = TextModel(dataclasses.replace(config.text, num_layers=0))
        model.layers = nn.ModuleList(BlockStandIn(i) for i in range(config.text.num_layers))
        return model

    def forward(
        model: nn.Module,
        embeds: Tensor,  # [B,S,H]
        cos: Tensor,  # [B,S,D/2]
        sin: Tensor,  # [B,S,D/2]
        *rest: Tensor,
    ) -> tuple[Tensor, ...]:
        deepstack = rest[:planes]  # each [B,S,H]
        write_indices, kv_lengths, last_token_ids = rest[planes : planes + 3]  # [B] each
        caches = rest[planes + 3 :]  # k and v of each layer in turn
        ops = TextGraphOperators(caches[0::2], caches[1::2], write_indices, kv_lengths)
        logits = model(embeds, cos, sin, deepstack, last_token_ids, ops)
        return (
            logits,
            *(cache for pair in zip(ops.k_out, ops.v_out, strict=True) for cache in pair),
        )

    graph = trace(build, forward, contract.inputs, contract.outputs, dtype)
    splice(graph, _layer_graph(config.text, contract, dtype), "layers")
    return graph


def _layer_graph(config: TextConfig, contract: Contract, dtype: torch.dtype) -> onnx.GraphProto:
    """One decoder layer, with the inputs and outputs of ``TextGraphOperators.stand_in``."""
    specs = {spec.name: spec for spec in contract.inputs}
    names = (
        *("inputs_embeds", "rope_cos", "rope_sin"),
        *("k_cache_0", "v_cache_0", "write_indices", "kv_lengths"),
    )
    inputs = [specs[name] for name in names]
    outputs = [
        TensorSpec(f"{name}_out", specs[name].dtype, specs[name].shape)
        for name in ("inputs_embeds", "k_cache_0", "v_cache_0")
    ]

    def forward(
        layer: nn.Module,
        x: Tensor,  # [B,S,H]
        cos: Tensor,  # [B,S,D/2]
        sin: Tensor,  # [B,S,D/2]
        k_cache: Tensor,  # [B,Hkv,C,D]
        v_cache: Tensor,  # [B,Hkv,C,D]
        write_indices: Tensor,  # [B]
        kv_lengths: Tensor,  # [B]
    ) -> tuple[Tensor, ...]:
        ops = TextGraphOperators([k_cache], [v_cache], write_indices, kv_lengths)
        x = layer(x, cos, sin, ops)
        return x, ops.k_out[0], ops.v_out[0]

    return trace(lambda: DecoderLayer(config, layer=0), forward, inputs, outputs, dtype)
