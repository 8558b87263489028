"""Static geometry of one bucket's training sequences.

A sequence is one prompt's shared prefix followed by ``Q`` branches of equal length, each a question
with its answer. A branch sees the prefix and itself, and its positions continue the prefix: every
branch is exactly the single-turn prompt the deployed model will see.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from edgevlm.accuracy.tiny.buckets import Bucket
from edgevlm.accuracy.tiny.chat import ChatEncoder
from edgevlm.models import ModelConfig, mrope_cos_sin, position_interpolation, vision_cos_sin

# Attention kernels want rows of the mask aligned to this many keys.
_ALIGNMENT = 8


@dataclass(frozen=True)
class Layout:
    """Constant tensors of one bucket, on the training device.

    Attributes:
        prefix_ids: ``[P]`` int64 prefix tokens; image placeholders included.
        spans: first and past-the-last prefix row of each image's visual tokens.
        length: rows of a sequence, padding to the alignment included.
        text_cos, text_sin: ``[1,S,D/2]`` fp32.
        mask: ``[1,1,S,S]`` bool, true where a row may attend.
        vision_cos, vision_sin: ``[1,N,D/2]`` fp32.
        corner_ids, corner_weights: ``[1,N,4]``, the interpolated position embedding.
    """

    bucket: Bucket
    questions: int
    prefix_ids: Tensor
    spans: tuple[tuple[int, int], ...]
    length: int
    text_cos: Tensor
    text_sin: Tensor
    mask: Tensor
    vision_cos: Tensor
    vision_sin: Tensor
    corner_ids: Tensor
    corner_weights: Tensor

    @property
    def prefix(self) -> int:
        """Rows of the shared prefix."""
        return len(self.prefix_ids)


def build_layout(
    bucket: Bucket,
    questions: int,
    encoder: ChatEncoder,
    config: ModelConfig,
    device: torch.device | str = "cpu",
) -> Layout:
    """Work out everything about a bucket's sequences that does not depend on their content."""
    prefix = encoder.prefix(bucket)
    spans = _image_spans(prefix, config.image_token_id, bucket)
    positions, following = _prefix_positions(len(prefix), spans, bucket)  # [3,P]
    branch = bucket.branch_tokens
    used = len(prefix) + questions * branch
    length = -(-used // _ALIGNMENT) * _ALIGNMENT
    branch_rows = following + torch.arange(branch)
    padding = torch.zeros(3, length - used, dtype=torch.int64)
    positions = torch.cat((positions, branch_rows.repeat(3, questions), padding), dim=1)  # [3,S]
    text_cos, text_sin = mrope_cos_sin(positions, config.text, torch.float32)
    rows, columns = bucket.patch_grid
    vision_cos, vision_sin = vision_cos_sin(rows, columns, config.vision, torch.float32)
    corner_ids, corner_weights = position_interpolation(rows, columns, config.vision)
    return Layout(
        bucket=bucket,
        questions=questions,
        prefix_ids=torch.tensor(prefix, device=device),
        spans=spans,
        length=length,
        text_cos=text_cos[None].to(device),
        text_sin=text_sin[None].to(device),
        mask=branch_mask(len(prefix), branch, questions, length)[None, None].to(device),
        vision_cos=vision_cos[None].to(device),
        vision_sin=vision_sin[None].to(device),
        corner_ids=corner_ids[None].to(device),
        corner_weights=corner_weights[None].to(device),
    )


def branch_mask(prefix: int, branch: int, questions: int, length: int) -> Tensor:
    """``[S,S]`` bool: causal, and blind to every branch but one's own."""
    rows = torch.arange(length)
    # The prefix is branch -1; padding rows at the end form one more branch.
    owner = torch.where(rows < prefix, -1, (rows - prefix) // branch).clamp(max=questions)
    causal = rows[:, None] >= rows[None, :]
    return causal & ((owner[None, :] == -1) | (owner[:, None] == owner[None, :]))


def _image_spans(
    prefix: tuple[int, ...], image_token: int, bucket: Bucket
) -> tuple[tuple[int, int], ...]:
    rows, columns = bucket.token_grid
    size = rows * columns
    starts = [i for i, t in enumerate(prefix) if t == image_token and (not i or prefix[i - 1] != t)]
    spans = tuple((start, start + size) for start in starts)
    if len(spans) != bucket.images:
        raise ValueError(f"{bucket.name}: {len(spans)} images in a prefix of {bucket.images}")
    return spans


def _prefix_positions(
    length: int, spans: tuple[tuple[int, int], ...], bucket: Bucket
) -> tuple[Tensor, int]:
    """mRoPE positions ``[3,P]`` of the prefix and the position that follows it."""
    rows, columns = bucket.token_grid
    grid_rows = torch.arange(rows).repeat_interleave(columns)
    grid = torch.stack((torch.zeros_like(grid_rows), grid_rows, torch.arange(columns).repeat(rows)))
    parts: list[Tensor] = []
    position = done = 0
    for start, end in (*spans, (length, length)):
        text = start - done
        parts.append((position + torch.arange(text)).expand(3, -1))
        position += text
        if end > start:
            parts.append(position + grid)
            position += max(rows, columns)
        done = end
    return torch.cat(parts, dim=1), position
