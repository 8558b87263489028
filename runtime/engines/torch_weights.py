"""The language model's weights as the fused network wants them: fewer, larger matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ...models import TextConfig


@dataclass(frozen=True)
class DenseWeights:
    """The feed-forward of one layer."""

    gate_up: Tensor  # [2I,H]
    down: Tensor  # [H,I]


@dataclass(frozen=True)
class MoeWeights:
    """The experts of one layer, in the checkpoint's layout."""

    router: Tensor  # [N,H]
    gate_up: Tensor  # [N,H,2I]
    down: Tensor  # [N,I,H]
    top_k: int


@dataclass(frozen=True)
class LayerWeights:
    """One decoder layer."""

    input_norm: Tensor  # [H]
    qkv: Tensor  # [(Hq+2Hkv)D,H]
    q_norm: Tensor  # [D]
    k_norm: Tensor  # [D]
    o: Tensor  # [H,Hq*D]
    post_norm: Tensor  # [H]
    feed_forward: DenseWeights | MoeWeights


@dataclass(frozen=True)
class FusedWeights:
    """The decoder stack and the output head."""

    layers: tuple[LayerWeights, ...]
    norm: Tensor  # [H]
    lm_head: Tensor  # [V,H]

    @classmethod
    def load(
        cls,
        config: TextConfig,
        state: Mapping[str, Tensor],
        dtype: torch.dtype,
        device: torch.device,
        local: Callable[[Tensor], Tensor] = lambda experts: experts,
    ) -> FusedWeights:
        """Copy weights to the device, joining what is multiplied by the same rows.

        Args:
            state: in the names of :class:`~edgevlm.models.TextModel`. Tensors are asked for one
                layer after another and not kept, so a mapping that makes them need hold few.
            local: which of a layer's experts ``[N,...]`` to keep.
        """

        def one(name: str) -> Tensor:
            return state[name].to(device, dtype).contiguous()

        def some(name: str) -> Tensor:
            return local(state[name]).to(device, dtype).contiguous()

        def joined(prefix: str, *names: str) -> Tensor:
            parts = [state[f"{prefix}.{name}.weight"] for name in names]
            rows = sum(part.shape[0] for part in parts)
            whole = torch.empty(rows, parts[0].shape[1], dtype=dtype, device=device)
            end = 0
            for part in parts:
                begin, end = end, end + part.shape[0]
                whole[begin:end] = part
            return whole

        def feed_forward(mlp: str, sparse: bool) -> DenseWeights | MoeWeights:
            if not sparse or config.moe is None:
                joint = joined(mlp, "gate_proj", "up_proj")
                return DenseWeights(joint, one(f"{mlp}.down_proj.weight"))
            return MoeWeights(
                one(f"{mlp}.gate.weight"),
                some(f"{mlp}.experts.gate_up_proj"),
                some(f"{mlp}.experts.down_proj"),
                config.moe.top_k,
            )

        def layer(index: int) -> LayerWeights:
            prefix = f"layers.{index}"
            attention = f"{prefix}.self_attn"
            return LayerWeights(
                input_norm=one(f"{prefix}.input_layernorm.weight"),
                qkv=joined(attention, "q_proj", "k_proj", "v_proj"),
                q_norm=one(f"{attention}.q_norm.weight"),
                k_norm=one(f"{attention}.k_norm.weight"),
                o=one(f"{attention}.o_proj.weight"),
                post_norm=one(f"{prefix}.post_attention_layernorm.weight"),
                feed_forward=feed_forward(f"{prefix}.mlp", index in config.moe_layers),
            )

        with torch.no_grad():
            layers = tuple(layer(index) for index in range(config.num_layers))
            return cls(layers, one("norm.weight"), one("lm_head.weight"))
