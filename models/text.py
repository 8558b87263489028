"""Qwen3-VL's language model, dense or a mixture of experts: a GQA decoder with per-head q/k norms
and DeepStack injection.

Parameter names are those of the Hugging Face checkpoint below ``model.language_model.``, except
``lm_head``. The token embedding table is not part of the network: the runtime gathers rows from it
and overwrites the visual ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import TextConfig
from .moe import MoeBlock
from .operators import TextOperators


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last axis, accumulated in fp32 whatever the input dtype."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


class Attention(nn.Module):
    """Grouped-query self-attention; the host's ``attend`` owns the KV cache and the mask."""

    def __init__(self, config: TextConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.head_dim = config.head_dim
        width, kv_width = (n * config.head_dim for n in (config.num_heads, config.num_kv_heads))
        self.q_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv_width, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv_width, bias=False)
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(config.head_dim, config.rms_norm_eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, ops: TextOperators) -> Tensor:
        q = self.q_norm(self._heads(self.q_proj(x))).transpose(1, 2)  # [B,Hq,S,D]
        k = self.k_norm(self._heads(self.k_proj(x))).transpose(1, 2)  # [B,Hkv,S,D]
        v = self._heads(self.v_proj(x)).transpose(1, 2)  # [B,Hkv,S,D]
        q, k = ops.rotate(q, cos, sin), ops.rotate(k, cos, sin)
        out = ops.attend(q, k, v, self.layer)  # [B,Hq,S,D]
        projected: Tensor = self.o_proj(out.transpose(1, 2).flatten(2))
        return projected

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], -1, self.head_dim)  # [B,S,heads,D]


class MLP(nn.Module):
    """SwiGLU feed-forward."""

    def __init__(self, config: TextConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor, ops: TextOperators) -> Tensor:
        projected: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return projected


class DecoderLayer(nn.Module):
    """Pre-norm attention and feed-forward or experts, each with a residual."""

    def __init__(self, config: TextConfig, layer: int) -> None:
        super().__init__()
        self.self_attn = Attention(config, layer)
        moe = config.moe if layer in config.moe_layers else None
        self.mlp = MoeBlock(config.hidden_size, moe, layer) if moe else MLP(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, ops: TextOperators) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, ops)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x), ops)
        return out


class TextModel(nn.Module):
    """The decoder stack and the output head."""

    def __init__(self, config: TextConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(DecoderLayer(config, i) for i in range(config.num_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def hidden_states(
        self,
        inputs_embeds: Tensor,  # [B,S,H]
        rope_cos: Tensor,  # [B,S,D/2]
        rope_sin: Tensor,  # [B,S,D/2]
        deepstack: Sequence[Tensor],  # each [B,S,H], zeros where a token is not visual
        ops: TextOperators,
    ) -> Tensor:
        """Normed hidden states ``[B,S,H]``; plane ``i`` is added after decoder layer ``i``."""
        x = inputs_embeds
        for index, layer in enumerate(self.layers):
            x = layer(x, rope_cos, rope_sin, ops)
            if index < len(deepstack):
                x = x + deepstack[index]
        normed: Tensor = self.norm(x)
        return normed

    def forward(
        self,
        inputs_embeds: Tensor,  # [B,S,H]
        rope_cos: Tensor,  # [B,S,D/2]
        rope_sin: Tensor,  # [B,S,D/2]
        deepstack: Sequence[Tensor],  # each [B,S,H]
        last_token_ids: Tensor,  # [B] int64
        ops: TextOperators,
    ) -> Tensor:
        """fp32 logits ``[B,V]`` of row ``last_token_ids`` of each sequence."""
        hidden = self.hidden_states(inputs_embeds, rope_cos, rope_sin, deepstack, ops)
        index = last_token_ids[:, None, None].expand(-1, 1, hidden.shape[-1])  # [B,1,H]
        logits: Tensor = self.lm_head(hidden.gather(1, index).squeeze(1))
        return logits.float()
