"""How much attention each patch receives, from the attention matrices of ``transformers``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.models.qwen3_vl.modeling_qwen3_vl import eager_attention_forward


@torch.inference_mode()
def received_attention(visual: Any, patches: Tensor, grid: tuple[int, int], layer: int) -> Tensor:
    """``[N]``: mean over heads, sum over queries, of one image of ``patches [N,P]``."""
    watched = visual.blocks[layer].attn
    received = []

    def watch(module: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        output, weights = eager_attention_forward(module, *args, **kwargs)  # weights [1,heads,N,N]
        if module is watched:
            received.append(weights[0].float().mean(dim=0).sum(dim=0))
        return output, weights

    AttentionInterface.register("watched", watch)
    before = visual.config._attn_implementation
    visual.config._attn_implementation = "watched"
    try:
        visual(patches, torch.tensor([[1, *grid]]))
    finally:
        visual.config._attn_implementation = before
    (found,) = received
    return found
