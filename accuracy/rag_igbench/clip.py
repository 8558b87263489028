"""CLIP score: does each image of the answer fit the text around it?"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from PIL import Image

from .alignment import Similarity, rescale
from .answer import Interleaved
from .embedding import ImageTextEmbedder, cosines

_LOWEST, _HIGHEST = 0.1, 0.4
_CHARACTERS = 25  # of the context; CLIP's text encoder takes no more than a line


def clip_score(
    generated: Interleaved, load: Callable[[int], Image.Image], embedder: ImageTextEmbedder
) -> Similarity:
    """Mean similarity of every image of the answer to the first 25 characters of its context.

    Args:
        load: the candidate image of a number.
    """
    if not generated.contexts:
        return Similarity(0.0, 0.0)
    texts = embedder.texts([text[:_CHARACTERS] for text in generated.contexts.values()])  # [i,D]
    images = embedder.images([load(number) for number in generated.contexts])  # [i,D]
    found = cosines(texts, images)
    return Similarity(fmean(found), fmean(rescale(c, _LOWEST, _HIGHEST) for c in found))
