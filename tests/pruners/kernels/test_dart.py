"""All of DART's kernels in a row against the torch path and the slow reference."""

from __future__ import annotations

import pytest
import torch

from edgevlm.pruners import VisualPrunerConfig, create_visual_pruner

from ..dart_reference import dart_reference
from ..helpers import make_io
from .prompts import LAYOUTS, coarse


def dart(io, ratio: float, image: int, text: int) -> list[int]:
    options = {"pivot_image_tokens": image, "pivot_text_tokens": text}
    config = VisualPrunerConfig(True, "dart", ratio, min_visual_tokens=0, options=options)
    return list(create_visual_pruner(config).prune(io)[1].kept_positions)


@pytest.mark.parametrize(
    ("image", "text", "ratio"),
    [(4, 4, 0.25), (4, 4, 0.7), (0, 3, 0.5), (2, 0, 0.5), (30, 20, 0.8)],
)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ties", [False, True])
def test_kernels_keep_what_the_torch_path_keeps(layout, image, text, ratio, ties, request) -> None:
    length, spans = layout
    if not image and sum(end - start for start, end in spans) == length:
        text, image = 0, 1
    dtype = torch.float32 if ties else torch.float16
    embeds = coarse(length, 4, seed=length + image) if ties else None
    io = make_io(length, spans, embeds=embeds, hidden=24, planes=0, dtype=dtype)
    expected = dart(io, ratio, image, text)
    assert expected == dart_reference(io.embeds.tolist(), spans, ratio, image, text)
    request.getfixturevalue("kernels_everywhere")
    assert dart(io, ratio, image, text) == expected


def test_sixty_four_pivots(request) -> None:
    io = make_io(110, [(4, 100)], hidden=40, planes=0)
    expected = dart(io, 0.2, 60, 4)
    request.getfixturevalue("kernels_everywhere")
    assert dart(io, 0.2, 60, 4) == expected
