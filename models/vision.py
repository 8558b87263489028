"""Qwen3-VL's vision tower, batched over images of one padded patch count.

Parameter names are those of the Hugging Face checkpoint below ``model.visual.``.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from .config import VisionConfig
from .operators import Operators

_NORM_EPS = 1e-6


class PatchEmbed(nn.Module):
    """The patch convolution. Its stride equals its kernel, so it is one matrix product."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        kernel = (config.temporal_patch_size, config.patch_size, config.patch_size)
        self.proj = nn.Conv3d(config.in_channels, config.hidden_size, kernel, kernel)

    def forward(self, patches: Tensor) -> Tensor:  # [I,N,patch_dim] -> [I,N,H]
        return F.linear(patches, self.proj.weight.flatten(1), self.proj.bias)


class VisionAttention(nn.Module):
    """Full self-attention inside one image (or one frame pair)."""

    def __init__(self, config: VisionConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.num_heads = config.num_heads
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.proj = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, ops: Operators) -> Tensor:
        q, k, v = (
            part.view(*part.shape[:-1], self.num_heads, -1).transpose(1, 2)  # [I,heads,N,D]
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        out = ops.attend(ops.rotate(q, cos, sin), ops.rotate(k, cos, sin), v, self.layer)
        projected: Tensor = self.proj(out.transpose(1, 2).flatten(2))
        return projected


class VisionMLP(nn.Module):
    """Feed-forward with the tanh form of GELU."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.linear_fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.linear_fc2 = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear_fc2(F.gelu(self.linear_fc1(x), approximate="tanh"))
        return out


class VisionBlock(nn.Module):
    """Pre-norm attention and feed-forward, each with a residual."""

    def __init__(self, config: VisionConfig, layer: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.hidden_size, eps=_NORM_EPS)
        self.norm2 = nn.LayerNorm(config.hidden_size, eps=_NORM_EPS)
        self.attn = VisionAttention(config, layer)
        self.mlp = VisionMLP(config)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, ops: Operators) -> Tensor:
        x = x + self.attn(self.norm1(x), cos, sin, ops)
        out: Tensor = x + self.mlp(self.norm2(x))
        return out


class PatchMerger(nn.Module):
    """Merges each group of ``merge_size**2`` consecutive patches into one visual token.

    The main merger norms patches before they are grouped, the DeepStack mergers the groups.
    """

    def __init__(self, config: VisionConfig, *, norm_after_grouping: bool) -> None:
        super().__init__()
        self.group_width = config.hidden_size * config.merge_unit
        self.norm_after_grouping = norm_after_grouping
        norm_width = self.group_width if norm_after_grouping else config.hidden_size
        self.norm = nn.LayerNorm(norm_width, eps=_NORM_EPS)
        self.linear_fc1 = nn.Linear(self.group_width, self.group_width)
        self.linear_fc2 = nn.Linear(self.group_width, config.out_hidden_size)

    def forward(self, x: Tensor) -> Tensor:  # [I,N,H] -> [I,N/4,out]
        after = self.norm_after_grouping
        x = self.norm(self._group(x)) if after else self._group(self.norm(x))
        out: Tensor = self.linear_fc2(F.gelu(self.linear_fc1(x)))
        return out

    def _group(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], -1, self.group_width)


class VisionTower(nn.Module):
    """Patches to visual tokens and the DeepStack planes that go with them."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        self.patch_embed = PatchEmbed(config)
        self.pos_embed = nn.Embedding(config.num_position_embeddings, config.hidden_size)
        self.blocks = nn.ModuleList(VisionBlock(config, i) for i in range(config.depth))
        self.merger = PatchMerger(config, norm_after_grouping=False)
        self.deepstack_merger_list = nn.ModuleList(
            PatchMerger(config, norm_after_grouping=True) for _ in config.deepstack_layers
        )

    def forward(
        self,
        patches: Tensor,  # [I,N,patch_dim]
        rope_cos: Tensor,  # [I,N,D/2]
        rope_sin: Tensor,  # [I,N,D/2]
        pos_indices: Tensor,  # [I,N,4] int64: rows of the position table
        pos_weights: Tensor,  # [I,N,4]: their bilinear weights
        ops: Operators,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return embeds ``[I,N/4,out]`` and one plane of that shape per DeepStack layer.

        Rows beyond an image's own length are padding: ``ops.attend`` must not let other rows see
        them, and their outputs mean nothing.
        """
        positions = (self.pos_embed(pos_indices) * pos_weights.unsqueeze(-1)).sum(2)  # [I,N,H]
        x = self.patch_embed(patches) + positions
        planes: list[Tensor] = []
        for index, block in enumerate(self.blocks):
            x = block(x, rope_cos, rope_sin, ops)
            if index in self.config.deepstack_layers:
                merger = self.deepstack_merger_list[self.config.deepstack_layers.index(index)]
                planes.append(merger(x))
        return self.merger(x), tuple(planes)
