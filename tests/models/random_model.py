"""A scaled-down Qwen3-VL with random weights, and the ``transformers`` model they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import (
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLMoeConfig,
    Qwen3VLMoeForConditionalGeneration,
)

from edgevlm.models import ModelConfig, parse_config

VOCABULARY = 100
IMAGE, VIDEO, START, END = 90, 91, 92, 93
_TEXT, _VISION = "model.language_model.", "model.visual."


@dataclass(frozen=True)
class RandomModel:
    """``reference`` is the oracle, ``config`` our reading of its configuration."""

    reference: Any
    config: ModelConfig

    def vision_state(self) -> dict[str, Tensor]:
        return self._below(_VISION)

    def text_state(self) -> dict[str, Tensor]:
        state = self._below(_TEXT)
        del state["embed_tokens.weight"]
        return {**state, "lm_head.weight": self.reference.lm_head.weight.data}

    def embedding_table(self) -> Tensor:
        table: Tensor = self.reference.state_dict()[f"{_TEXT}embed_tokens.weight"]
        return table

    def published(self) -> dict[str, Tensor]:
        """The weights as a published checkpoint has them."""
        state = self.reference.state_dict()
        return {
            # Published checkpoints have inputs before outputs, the reference's module after.
            name: t.transpose(1, 2).contiguous() if ".experts." in name else t
            for name, t in state.items()
        }

    def _below(self, prefix: str) -> dict[str, Tensor]:
        state = self.published()
        return {name[len(prefix) :]: t for name, t in state.items() if name.startswith(prefix)}


EXPERTS = {
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "mlp_only_layers": [1],
}


def make_random_model(
    seed: int = 0, *, tied: bool = False, experts: dict[str, Any] | None = None
) -> RandomModel:
    """GQA 4:1, interleaved mRoPE, three DeepStack taps; weights large enough to tell rows apart.

    Args:
        experts: the configuration's fields of a mixture of experts, such as ``EXPERTS``.
    """
    torch.manual_seed(seed)
    rope = {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "mrope_section": [4, 2, 2],
        "mrope_interleaved": True,
    }
    config_type, model_type = (
        (Qwen3VLMoeConfig, Qwen3VLMoeForConditionalGeneration)
        if experts
        else (Qwen3VLConfig, Qwen3VLForConditionalGeneration)
    )
    config = config_type(
        text_config={
            "vocab_size": VOCABULARY,
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 4,
            "num_attention_heads": 8,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "rope_parameters": rope,
            **(experts or {}),
        },
        vision_config={
            "depth": 4,
            "hidden_size": 48,
            "intermediate_size": 96,
            "num_heads": 4,
            "out_hidden_size": 64,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0, 1, 3],
        },
        image_token_id=IMAGE,
        video_token_id=VIDEO,
        vision_start_token_id=START,
        vision_end_token_id=END,
        tie_word_embeddings=tied,
    )
    reference = model_type(config).eval()
    for parameter in reference.parameters():
        parameter.data.normal_(0, 0.2)
    return RandomModel(reference, parse_config(config.to_dict()))
