"""Running a language model one layer at a time over many texts, and watching its experts."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from ...models import Checkpoint, Routing, rotate_half_split
from ...models.text import DecoderLayer

Observer = Callable[[Tensor, Routing], None]
"""Takes the outputs ``[N,R,H]`` of all experts for a group's rows, and where the rows go."""


class ObservingOperators:
    """Causal attention without a cache; every expert runs on every row.

    A row's own result is what the router makes of its experts, as ever.
    """

    rotate = staticmethod(rotate_half_split)

    def __init__(self, observe: Observer) -> None:
        self._observe = observe

    def attend(self, q: Tensor, k: Tensor, v: Tensor, layer: int) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    def route(self, hidden: Tensor, routing: Routing, layer: int) -> Routing:
        return routing

    def experts(
        self, hidden: Tensor, routing: Routing, gate_up: Tensor, down: Tensor, layer: int
    ) -> Tensor:
        experts = gate_up.shape[0]
        outputs = hidden.new_empty(experts, *hidden.shape)  # [N,R,H]
        for expert in range(experts):
            # Experts stay in the checkpoint's dtype until they are needed: all of them are large.
            gate, up = (hidden @ gate_up[expert].to(hidden.dtype)).chunk(2, dim=-1)  # [R,I] each
            outputs[expert] = (F.silu(gate) * up) @ down[expert].to(hidden.dtype)
        self._observe(outputs, routing)
        weights = hidden.new_zeros(len(hidden), experts).scatter_(1, routing.ids, routing.weights)
        return torch.einsum("nrh,rn->rh", outputs, weights)


def load_layer(
    checkpoint: Checkpoint, index: int, dtype: torch.dtype, device: torch.device
) -> DecoderLayer:
    """Layer ``index`` with weights of ``dtype`` on ``device``; experts keep their own dtype.

    Raises:
        CheckpointError: a weight is missing or has the wrong shape.
    """
    with torch.device("meta"):
        layer = DecoderLayer(checkpoint.config.text, index)
    weights = {}
    for name, meta in layer.state_dict().items():
        info = checkpoint.weight("llm", f"layers.{index}.{name}", tuple(meta.shape))
        fused_experts = meta.ndim == 3
        weights[name] = checkpoint.tensor(info.name).to(device, None if fused_experts else dtype)
    layer.load_state_dict(weights, assign=True)
    return layer.eval().requires_grad_(False)
