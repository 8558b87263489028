"""The exported vision tower in ONNX Runtime against ``transformers``, image by image."""

from __future__ import annotations

import torch
from torch import Tensor

from edgevlm.models import position_interpolation, vision_cos_sin
from tests.builder.conftest import Built
from tests.builder.sessions import Session
from tests.models.received_attention import received_attention

GRIDS = ((4, 6), (2, 8), (8, 8))


def pad(rows: list[Tensor], dtype: torch.dtype) -> Tensor:
    """Stack tensors of different lengths; the padding is loud, so that a leak shows."""
    size = max(len(row) for row in rows)
    batch = torch.full((len(rows), size, *rows[0].shape[1:]), 3, dtype=dtype)
    for target, row in zip(batch, rows, strict=True):
        target[: len(row)] = row
    return batch


def test_images_of_different_sizes_share_a_padded_batch(built: Built) -> None:
    session, vision = Session(built.engine, "visual"), built.model.config.vision
    dtype = getattr(torch, session.manifest.dtype)
    torch.manual_seed(0)
    images = [torch.randn(h * w, vision.patch_dim).to(dtype).float() for h, w in GRIDS]
    rotations = [vision_cos_sin(h, w, vision, dtype) for h, w in GRIDS]
    places = [position_interpolation(h, w, vision) for h, w in GRIDS]
    inputs = {
        "patches": pad(images, dtype),
        "rope_cos": pad([cos for cos, _ in rotations], dtype),
        "rope_sin": pad([sin for _, sin in rotations], dtype),
        "pos_indices": pad([indices for indices, _ in places], torch.int64),
        "pos_weights": pad([weights for _, weights in places], dtype),
        "patch_lengths": torch.tensor([h * w for h, w in GRIDS]),
    }
    outputs = session.empty_outputs(images=len(GRIDS), visual_tokens=16)
    session.run(inputs, outputs)
    for index, (h, w) in enumerate(GRIDS):
        with torch.inference_mode():
            reference = built.model.reference.model.visual(images[index], torch.tensor([[1, h, w]]))
        planes = [reference.pooler_output, *reference.deepstack_features]
        names = ("embeds", *(f"deepstack_{i}" for i in range(3)))
        for name, expected in zip(names, planes, strict=True):
            found = outputs[name][index, : h * w // 4].float()
            atol = built.tolerance * max(float(expected.abs().max()), 1)
            torch.testing.assert_close(found, expected, atol=atol, rtol=0)
        q, k = (outputs[f"importance_{name}"][index, :, : h * w].float() for name in "qk")
        scores = (q @ k.mT * vision.head_dim**-0.5).softmax(-1)  # [heads,n,n]
        visual = built.model.reference.model.visual
        expected = received_attention(visual, images[index], (h, w), layer=vision.depth - 1)
        torch.testing.assert_close(scores.mean(0).sum(0), expected, atol=2e-4, rtol=0)
