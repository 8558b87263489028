"""The vision tower as an ONNX graph."""

from __future__ import annotations

import onnx
import torch
from torch import Tensor, nn

from ..core.manifest import TensorSpec
from ..models import VisionConfig, VisionTower
from ..models.vision import VisionBlock
from .contract import Contract
from .graph_operators import BlockStandIn, VisionGraphOperators
from .splice import splice
from .trace import trace


def vision_graph(
    config: VisionConfig, contract: Contract, dtype: torch.dtype, importance_layer: int | None
) -> onnx.GraphProto:
    """Export :class:`~edgevlm.models.VisionTower` with ``contract``'s inputs and outputs.

    Args:
        importance_layer: the block whose queries and keys are outputs; ``None`` if the contract
            has none.
    """

    def build() -> nn.Module:
        tower = VisionTower(config)
        tower.blocks = nn.ModuleList(BlockStandIn(i) for i in range(config.depth))
        return tower

    def forward(
        tower: nn.Module,
        patches: Tensor,  # [I,N,patch_dim]
        cos: Tensor,  # [I,N,D/2]
        sin: Tensor,  # [I,N,D/2]
        pos_indices: Tensor,  # [I,N,4]
        pos_weights: Tensor,  # [I,N,4]
        patch_lengths: Tensor,  # [I]
    ) -> tuple[Tensor, ...]:
        ops = VisionGraphOperators(patch_lengths, importance_layer)
        embeds, planes = tower(patches, cos, sin, pos_indices, pos_weights, ops)
        return (embeds, *planes, *ops.watched)

    graph = trace(build, forward, contract.inputs, contract.outputs, dtype)
    splice(graph, [_block_graph(config, contract, dtype)] * config.depth, "blocks")
    return graph


def _block_graph(config: VisionConfig, contract: Contract, dtype: torch.dtype) -> onnx.GraphProto:
    """One transformer block, with the inputs and outputs of ``VisionGraphOperators.stand_in``."""
    specs = {spec.name: spec for spec in contract.inputs}
    patches = specs["patches"]
    shape = (*patches.shape[:2], config.hidden_size)
    inputs = [
        TensorSpec("x", patches.dtype, shape),
        *(specs[name] for name in ("rope_cos", "rope_sin", "patch_lengths")),
    ]

    def forward(
        block: nn.Module,
        x: Tensor,  # [I,N,H]
        cos: Tensor,  # [I,N,D/2]
        sin: Tensor,  # [I,N,D/2]
        patch_lengths: Tensor,  # [I]
    ) -> tuple[Tensor, ...]:
        ops = VisionGraphOperators(patch_lengths)
        return (block(x, cos, sin, ops), *ops.watched)

    heads = (shape[0], config.num_heads, shape[1], config.head_dim)
    outputs = [
        TensorSpec("x_out", patches.dtype, shape),
        *(TensorSpec(name, patches.dtype, heads) for name in ("q_out", "k_out")),
    ]
    return trace(lambda: VisionBlock(config, layer=0), forward, inputs, outputs, dtype)
