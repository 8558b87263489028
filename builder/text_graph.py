"""The language model as an ONNX graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx
import torch
from torch import Tensor, nn

from ..core.manifest import TensorSpec
from ..models import ModelConfig, TextConfig, TextModel
from ..models.text import DecoderLayer
from ..plugins.controls import Control
from .contract import Contract
from .graph_operators import BlockStandIn, TextGraphOperators
from .layer_tensors import LayerTensors
from .splice import splice
from .trace import trace

_ROWS = ("inputs_embeds", "rope_cos", "rope_sin")


def text_graph(
    config: ModelConfig,
    contract: Contract,
    dtype: torch.dtype,
    controls: Sequence[Control] = (),
) -> onnx.GraphProto:
    """Export :class:`~edgevlm.models.TextModel` with ``contract``'s inputs and outputs."""
    text, planes = config.text, config.num_deepstack
    blocks = [LayerTensors.of(text, controls, layer) for layer in range(text.num_layers)]

    def build() -> nn.Module:
        model = TextModel(dataclasses.replace(text, num_layers=0))
        model.layers = nn.ModuleList(BlockStandIn(i) for i in range(text.num_layers))
        return model

    def forward(model: nn.Module, *inputs: Tensor) -> tuple[Tensor, ...]:
        tensors = dict(zip((spec.name for spec in contract.inputs), inputs, strict=True))
        ops = TextGraphOperators(tensors, blocks)
        deepstack = [tensors[f"deepstack_{plane}"] for plane in range(planes)]  # each [B,S,H]
        logits = model(
            *(tensors[name] for name in _ROWS), deepstack, tensors["last_token_ids"], ops
        )
        results = {"logits": logits, **ops.results}
        return tuple(results[spec.name] for spec in contract.outputs)

    graph = trace(build, forward, contract.inputs, contract.outputs, dtype)
    specs = {spec.name: spec for spec in (*contract.inputs, *contract.outputs)}
    traced: dict[bool, onnx.GraphProto] = {}  # by whether the layer has experts
    for layer, block in enumerate(blocks):
        sparse = layer in text.moe_layers
        if sparse not in traced:
            traced[sparse] = _layer_graph(text, layer, block, specs, dtype)
    splice(graph, [traced[layer in text.moe_layers] for layer in range(text.num_layers)], "layers")
    return graph


def _layer_graph(
    config: TextConfig,
    layer: int,
    block: LayerTensors,
    specs: dict[str, TensorSpec],
    dtype: torch.dtype,
) -> onnx.GraphProto:
    """One decoder layer, with the inputs and outputs of ``TextGraphOperators.stand_in``."""
    inputs = [specs[name] for name in (*_ROWS, *block.inputs)]
    embeds = specs["inputs_embeds"]
    outputs = [
        TensorSpec("hidden_out", embeds.dtype, embeds.shape),
        *(specs[name] for name in block.outputs),
    ]

    def forward(
        module: nn.Module,
        x: Tensor,  # [B,S,H]
        cos: Tensor,  # [B,S,D/2]
        sin: Tensor,  # [B,S,D/2]
        *rest: Tensor,
    ) -> tuple[Tensor, ...]:
        ops = TextGraphOperators(dict(zip(block.inputs, rest, strict=True)))
        x = module(x, cos, sin, ops)
        return x, *(ops.results[name] for name in block.outputs)

    return trace(lambda: DecoderLayer(config, layer), forward, inputs, outputs, dtype)
