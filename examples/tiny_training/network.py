"""The network as the trainer runs it: whole batches of one bucket, no per-image work."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgevlm.models import ModelConfig, Routing, TextModel, VisionTower, rotate_half_split
from edgevlm.models.moe import Experts

from .layout import Layout
from .mixture import all_experts, balanced

_PIXEL_MIDDLE = 127.5
# HF names of our top-level modules.
_PREFIXES = (
    ("visual.", "model.visual."),
    ("language_model.", "model.language_model."),
    ("embed_tokens.", "model.language_model.embed_tokens."),
)


@dataclass(frozen=True)
class BatchOperators:
    """Rotation in fp32 and plain attention; ``mask [1,1,S,S]`` where rows may not see all."""

    mask: Tensor | None = None

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return rotate_half_split(x, cos, sin).to(x.dtype)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, layer: int) -> Tensor:
        groups = q.shape[1] // k.shape[1]
        if groups > 1:
            # The memory-efficient kernel that takes a mask wants as many key as query heads.
            k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        dtype = v.dtype
        mask = self.mask
        return F.scaled_dot_product_attention(q.to(dtype), k.to(dtype), v, attn_mask=mask)

    def route(self, hidden: Tensor, routing: Routing, layer: int) -> Routing:
        return balanced(routing) if torch.is_grad_enabled() else routing

    def experts(
        self, hidden: Tensor, routing: Routing, gate_up: Tensor, down: Tensor, layer: int
    ) -> Tensor:
        return all_experts(hidden, routing, gate_up, down)


class TinyNetwork(nn.Module):
    """Vision tower, decoder and tied embeddings of one checkpoint."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.visual = VisionTower(config.vision)
        self.language_model = TextModel(config.text)
        self.embed_tokens = nn.Embedding(config.text.vocab_size, config.text.hidden_size)
        self.language_model.lm_head.weight = self.embed_tokens.weight
        initialise(self)

    def forward(self, patches: Tensor, branches: Tensor, rows: Tensor, layout: Layout) -> Tensor:
        """Logits of the rows that predict answer tokens.

        Args:
            patches: ``[B*images,N,patch_dim]`` in the compute dtype.
            branches: ``[B,Q,L]`` int64 token ids.
            rows: ``[B,Q,A]`` int64 rows inside a branch whose logits are wanted.

        Returns:
            ``[B,Q,A,V]`` fp32.
        """
        ops = BatchOperators()
        visual, planes = self.visual(
            patches,
            layout.vision_cos,
            layout.vision_sin,
            layout.corner_ids,
            layout.corner_weights.to(patches.dtype),
            ops,
        )  # [B*images,N/4,H] each
        text = self._text_embeddings(branches, layout)  # [B,S,H]
        inputs = self._place(text, visual, layout)
        empty = torch.zeros_like(text)
        hidden = self.language_model.hidden_states(
            inputs,
            layout.text_cos,
            layout.text_sin,
            [self._place(empty, plane, layout) for plane in planes],
            BatchOperators(layout.mask),
        )  # [B,S,H]
        first = layout.prefix + torch.arange(layout.questions, device=rows.device) * (
            layout.bucket.branch_tokens
        )
        wanted = (rows + first.view(1, -1, 1)).flatten(1)  # [B,Q*A]
        picked = hidden.gather(1, wanted[..., None].expand(-1, -1, hidden.shape[-1]))
        logits: Tensor = self.language_model.lm_head(picked)
        return logits.float().view(*rows.shape, -1)

    def _text_embeddings(self, branches: Tensor, layout: Layout) -> Tensor:
        batch = branches.shape[0]
        used = layout.prefix + branches.shape[1] * branches.shape[2]
        ids = torch.cat(
            (
                layout.prefix_ids.expand(batch, -1),
                branches.flatten(1),
                branches.new_zeros(batch, layout.length - used),
            ),
            dim=1,
        )
        embeddings: Tensor = self.embed_tokens(ids)
        return embeddings

    @staticmethod
    def _place(text: Tensor, visual: Tensor, layout: Layout) -> Tensor:
        """``text [B,S,H]`` with its visual rows replaced by ``visual [B*images,T,H]``."""
        batch = text.shape[0]
        per_image = visual.view(batch, len(layout.spans), *visual.shape[1:]).to(text.dtype)
        parts: list[Tensor] = []
        done = 0
        for image, (start, end) in enumerate(layout.spans):
            parts += [text[:, done:start], per_image[:, image]]
            done = end
        return torch.cat((*parts, text[:, done:]), dim=1)


def to_patches(images: Tensor, merge: int, patch: int, frames: int) -> Tensor:
    """Normalised patches ``[I,N,C*frames*patch*patch]`` fp32, in merge-block order.

    Args:
        images: ``[I,H,W,3]`` uint8; a still image is repeated over ``frames``.
    """
    count, height, width, channels = images.shape
    grid = (height // patch // merge, merge, patch, width // patch // merge, merge, patch)
    blocks = images.view(count, *grid, channels).permute(0, 1, 4, 2, 5, 7, 3, 6)
    pixels = blocks.float() / _PIXEL_MIDDLE - 1
    pixels = pixels.unsqueeze(6).expand(*pixels.shape[:6], frames, patch, patch)
    return pixels.reshape(count, -1, channels * frames * patch * patch)


@torch.no_grad()
def initialise(network: TinyNetwork) -> None:
    """Random weights: fan-in scaled, residual outputs damped by depth.

    The position table starts as sines and cosines of visible size: with HF's 0.02 it starts thirty
    times smaller than the patches it is added to, and binding words to places is learnt late.
    """
    depth = network.config.text.num_layers
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear | nn.Conv3d):
            if name.endswith("lm_head"):
                continue  # tied to the embedding
            std = 0.7 / math.sqrt(module.weight[0].numel())
            if name.endswith(("attn.proj", "o_proj", "mlp.linear_fc2", "down_proj")):
                std /= math.sqrt(2 * depth)
            nn.init.normal_(module.weight, std=std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, Experts):
            inner, outer = module.gate_up_proj, module.down_proj
            nn.init.normal_(inner, std=0.7 / math.sqrt(inner.shape[1]))
            # What reaches the residual is a mean of some experts, not the output of one.
            nn.init.normal_(outer, std=1.4 / math.sqrt(outer.shape[1]) / math.sqrt(2 * depth))
    # Large enough that a word still shows beside what attention adds to it.
    nn.init.normal_(network.embed_tokens.weight, std=0.05)
    table = network.visual.pos_embed.weight
    table.copy_(_sine_grid(network.config.vision.grid_side, table.shape[1]) * 0.5)


def _sine_grid(side: int, width: int) -> Tensor:
    """``[side*side,width]``: half the channels for rows, half for columns."""
    quarter = width // 4
    wavelengths = torch.exp(torch.linspace(math.log(4.0), math.log(4.0 * side), quarter))
    angles = torch.arange(side)[:, None] * (2 * math.pi / wavelengths)  # [side,quarter]
    axis = torch.cat((angles.sin(), angles.cos()), dim=1)  # [side,width/2]
    rows = axis[:, None].expand(-1, side, -1)
    columns = axis[None].expand(side, -1, -1)
    grid = torch.cat((rows, columns), dim=-1).reshape(side * side, -1)
    return F.pad(grid, (0, width - grid.shape[1]))


def to_hugging_face(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename a network's state to the checkpoint's names; the tied head is left out."""
    renamed: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if name.endswith("lm_head.weight"):
            continue
        for ours, theirs in _PREFIXES:
            if name.startswith(ours):
                renamed[theirs + name.removeprefix(ours)] = tensor
    return renamed


def from_hugging_face(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of :func:`to_hugging_face`, the tied head included."""
    state: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        # The embedding table has the longest prefix of the three.
        for ours, theirs in sorted(_PREFIXES, key=lambda pair: -len(pair[1])):
            if name.startswith(theirs):
                state[ours + name.removeprefix(theirs)] = tensor
                break
    state["language_model.lm_head.weight"] = state["embed_tokens.weight"]
    return state
