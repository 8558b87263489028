"""Alignment and CLIP score with fixed vectors."""

from __future__ import annotations

import pytest
import torch
from PIL import Image

from edgevlm.accuracy.rag_igbench import Interleaved
from edgevlm.accuracy.rag_igbench.alignment import alignment, rescale
from edgevlm.accuracy.rag_igbench.clip import clip_score
from edgevlm.accuracy.rag_igbench.embedding import cosines

from .vectors import FixedVectors


def containing(contexts: dict[int, str]) -> Interleaved:
    return Interleaved("", tuple(contexts), contexts)


def test_alignment_is_over_common_images() -> None:
    embedder = FixedVectors({"axis": 1.0, "near": 0.85, "far": 0.4})
    generated = containing({1: "near", 2: "far", 5: "axis"})
    reference = containing({2: "axis", 1: "axis", 7: "axis"})
    found = alignment(generated, reference, embedder)
    assert found.cosine == pytest.approx((0.85 + 0.4) / 2)
    assert found.rescaled == pytest.approx((0.5 + 0.0) / 2)
    assert sorted(embedder.asked) == ["axis", "axis", "far", "near"]


def test_nothing_in_common_scores_0_and_asks_nothing() -> None:
    embedder = FixedVectors({})
    assert alignment(containing({1: "a"}), containing({2: "a"}), embedder) == (0.0, 0.0)
    assert clip_score(containing({}), lambda number: Image.new("RGB", (1, 1)), embedder) == (0, 0)
    assert not embedder.asked


def test_clip_takes_all_generated_images_and_25_characters() -> None:
    embedder = FixedVectors({"x" * 25: 0.25, "short": 0.05, "": 0.4})
    loaded: list[int] = []

    def load(number: int) -> Image.Image:
        loaded.append(number)
        return Image.new("RGB", (2, 2))

    found = clip_score(containing({4: "x" * 40, 9: "short", 2: ""}), load, embedder)
    assert found.cosine == pytest.approx((0.25 + 0.05 + 0.4) / 3)
    assert found.rescaled == pytest.approx((0.5 + 0.0 + 1.0) / 3)
    assert loaded == [4, 9, 2]


@pytest.mark.parametrize(
    ("cosine", "value"),
    [(-1.0, 0.0), (0.7, 0.0), (0.775, 0.25), (1.0, 1.0), (1.0000001, 1.0)],
)
def test_rescaling(cosine: float, value: float) -> None:
    assert rescale(cosine, 0.7, 1.0) == pytest.approx(value)


def test_a_zero_vector_is_like_nothing() -> None:
    assert cosines(torch.zeros(1, 3), torch.ones(1, 3)) == [0.0]
