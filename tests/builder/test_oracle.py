"""Both engines together against ``transformers``: an image prompt, then generated tokens."""

from __future__ import annotations

import pytest
import torch

from edgevlm.models import position_interpolation, vision_cos_sin
from tests.builder.conftest import Built
from tests.builder.sessions import Session, TextHost
from tests.models.random_model import IMAGE


@pytest.mark.parametrize("name", ["widened", "experts", "exchanged"])
@torch.inference_mode()
def test_prefill_and_decode_logits_equal_transformers(
    name: str, request: pytest.FixtureRequest
) -> None:
    built: Built = request.getfixturevalue(name)
    h, w, tail = 6, 8, [5, 6, 7, 8]
    count = h * w // 4
    ids = torch.tensor([[1, 2, 92, *[IMAGE] * count, 93, *tail]])
    kinds, grid = (ids == IMAGE).int(), torch.tensor([[1, h, w]])
    patches = torch.randn(h * w, 1536)
    reference = built.model.reference
    expected = reference(
        input_ids=ids, pixel_values=patches, image_grid_thw=grid, mm_token_type_ids=kinds
    ).logits[0]
    positions, _ = reference.model.get_rope_index(ids, kinds, grid)

    vision = built.model.config.vision
    inputs = (
        *(patches, *vision_cos_sin(h, w, vision, torch.float32)),
        *(*position_interpolation(h, w, vision), torch.tensor(h * w)),
    )
    session, text = (
        Session(built.engine, "visual"),
        TextHost(built.engine, slots=1, capacity=48),
    )
    names = [spec.name for spec in session.manifest.inputs]
    outputs = session.empty_outputs(images=1, visual_tokens=count)
    session.run({n: t[None].contiguous() for n, t in zip(names, inputs, strict=True)}, outputs)

    embeds = session.checkpoint.embedding_table()[ids].float()
    deepstack = [torch.zeros_like(embeds) for _ in range(3)]
    targets = [embeds, *deepstack]
    names = ("embeds", *(f"deepstack_{plane}" for plane in range(3)))
    for target, name in zip(targets, names, strict=True):
        target[:, 3 : 3 + count] = outputs[name]
    prompt = ids.shape[1] - 3
    parts = (slice(0, prompt), *(slice(i, i + 1) for i in range(prompt, ids.shape[1])))
    for part in parts:
        logits = text.step(
            embeds[:, part],
            positions[:, :, part],
            [plane[:, part] for plane in deepstack],
            [part.start],
            [part.stop - part.start - 1],
        )
        torch.testing.assert_close(logits[0], expected[part.stop - 1], atol=1e-4, rtol=1e-4)
