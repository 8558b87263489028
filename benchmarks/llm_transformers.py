"""The same language model by ``transformers``, eager: the baseline where it is installed."""

from __future__ import annotations

from typing import Any

import torch

from ..core import PipelineIO
from ..models import TextConfig
from .llm_times import Prefill


def make_prefill(config: TextConfig, dtype: torch.dtype, device: torch.device) -> Prefill | None:
    """Prefill with a KV cache up to the last token's logits, without DeepStack; ``None`` if
    ``transformers`` is not installed."""
    try:
        from transformers import Qwen3VLTextConfig
        from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextModel
    except ImportError:
        return None
    rope = {
        "rope_type": "default",
        "rope_theta": config.rope_theta,
        "mrope_section": list(config.mrope_section),
        "mrope_interleaved": True,
    }
    theirs = Qwen3VLTextConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        num_key_value_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        rms_norm_eps=config.rms_norm_eps,
        max_position_embeddings=config.max_position_embeddings,
        rope_parameters=rope,
    )
    theirs._attn_implementation = "sdpa"
    usual = torch.get_default_dtype()
    torch.set_default_dtype(dtype)  # a copy in fp32 might not fit
    try:
        with torch.device(device):
            build: Any = Qwen3VLTextModel  # which is not typed
            model = build(theirs).eval()
            head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)
    finally:
        torch.set_default_dtype(usual)

    def prefill(io: PipelineIO) -> object:
        hidden = model(
            inputs_embeds=io.embeds[None], position_ids=io.positions[:, None], use_cache=True
        ).last_hidden_state
        return head(hidden[:, -1]).float()

    return prefill
