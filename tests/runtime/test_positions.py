"""mRoPE positions against the published model."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel

from edgevlm.core import VisualSpan
from edgevlm.runtime.positions import mrope_positions

TEXT, IMAGE, VIDEO = 0, 1, 2
# Lengths of text, and the merged grids of images and video frame pairs.
IMAGES = st.tuples(st.just(IMAGE), st.tuples(st.integers(1, 6), st.integers(1, 6)))
VIDEOS = st.tuples(
    st.just(VIDEO),
    st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 5)),
)
PROMPTS = st.lists(
    st.one_of(st.tuples(st.just(TEXT), st.integers(1, 7)), IMAGES, VIDEOS), max_size=7
)


def published(kinds: list[int], images: list[list[int]], videos: list[list[int]]) -> tuple:
    """The model's own positions; it only needs its merge size, so no weights are made."""
    stub = SimpleNamespace(
        config=SimpleNamespace(vision_config=SimpleNamespace(spatial_merge_size=2)),
        get_vision_position_ids=lambda *a, **k: Qwen3VLModel.get_vision_position_ids(None, *a, **k),
    )
    types = torch.tensor([kinds])
    positions, delta = Qwen3VLModel.get_rope_index(
        stub,
        torch.zeros_like(types),
        types,
        image_grid_thw=torch.tensor(images) if images else None,
        video_grid_thw=torch.tensor(videos) if videos else None,
    )
    return positions[:, 0], int(delta) + len(kinds)


@given(PROMPTS)
def test_equals_the_published_model(prompt: list) -> None:
    kinds, images, videos, spans, grids = [TEXT], [], [], [], []

    def show(kind: int, rows: int, columns: int) -> None:
        spans.append(VisualSpan(len(kinds) + 1, len(kinds) + 1 + rows * columns, len(spans)))
        grids.append((rows, columns))
        kinds.extend([TEXT, *[kind] * (rows * columns), TEXT])  # between its two markers

    for kind, shape in prompt:
        if kind == TEXT:
            kinds.extend([TEXT] * shape)
        elif kind == IMAGE:
            images.append([1, 2 * shape[0], 2 * shape[1]])
            show(kind, *shape)
        else:
            pairs, rows, columns = shape
            videos.append([pairs, 2 * rows, 2 * columns])
            for _ in range(pairs):
                kinds.append(TEXT)  # a time stamp
                show(kind, rows, columns)
    positions, next_position = mrope_positions(len(kinds), spans, grids)
    expected, expected_next = published(kinds, images, videos)
    assert positions.dtype == torch.int64
    assert torch.equal(positions, expected)
    assert next_position == expected_next


def test_two_images_with_text_between() -> None:
    # text text START img*4 text START img*4 text, both images 4x4 patches
    spans = [VisualSpan(3, 7, 0), VisualSpan(9, 13, 1)]
    positions, next_position = mrope_positions(14, spans, [(2, 2), (2, 2)])
    assert positions.tolist() == [
        [0, 1, 2, 3, 3, 3, 3, 5, 6, 7, 7, 7, 7, 9],
        [0, 1, 2, 3, 3, 4, 4, 5, 6, 7, 7, 8, 8, 9],
        [0, 1, 2, 3, 4, 3, 4, 5, 6, 7, 8, 7, 8, 9],
    ]
    assert next_position == 10


def test_images_that_touch_and_end_the_prompt() -> None:
    positions, next_position = mrope_positions(
        6, [VisualSpan(0, 2, 0), VisualSpan(2, 6, 1)], [(1, 2), (4, 1)]
    )
    assert positions[0].tolist() == [0, 0, 2, 2, 2, 2]
    assert positions[1].tolist() == [0, 0, 2, 3, 4, 5]
    assert positions[2].tolist() == [0, 1, 2, 2, 2, 2]
    assert next_position == 6
