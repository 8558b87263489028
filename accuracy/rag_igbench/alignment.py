"""Alignment score: do the texts around an image say the same in answer and reference?"""

from __future__ import annotations

from statistics import fmean
from typing import NamedTuple

from .answer import Interleaved
from .embedding import TextEmbedder, cosines

_LOWEST, _HIGHEST = 0.7, 1.0


class Similarity(NamedTuple):
    """A mean over images, in both forms; 0 where there is no image to speak of."""

    cosine: float  # the paper: plain cosines
    rescaled: float  # the code: each cosine stretched to 0..1 first


def alignment(generated: Interleaved, reference: Interleaved, embedder: TextEmbedder) -> Similarity:
    """Mean similarity of the contexts of the images that both texts have."""
    common = [image for image in generated.contexts if image in reference.contexts]
    if not common:
        return Similarity(0.0, 0.0)
    mine = [generated.contexts[image] for image in common]
    wanted = [reference.contexts[image] for image in common]
    vectors = embedder.texts([*mine, *wanted])  # [2c,D]
    found = cosines(vectors[: len(common)], vectors[len(common) :])
    return Similarity(fmean(found), fmean(rescale(c, _LOWEST, _HIGHEST) for c in found))


def rescale(cosine: float, lowest: float, highest: float) -> float:
    """0 up to ``lowest``, 1 from ``highest``, linear between."""
    return min(max((cosine - lowest) / (highest - lowest), 0.0), 1.0)
