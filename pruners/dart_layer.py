"""DART as published: tokens compared by what an early decoder layer makes of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from ..core import RequestError, UsageError
from . import kernels
from .base import VisualTokenPruner
from .dart import DartOptions, torch_rows
from .layout import Layout
from .norms import torch_l1, torch_l2
from .request import PruneRequest
from .selection import Selection, keeps_quotas

_QUOTAS = ("exact", "paper")


@dataclass(frozen=True)
class DartLayerOptions(DartOptions):
    """Those of ``dart``, and where and how much.

    ``layer``: decoder layers that run on all tokens, at least 1. ``quota``: ``"exact"`` keeps what
    the ratio asks for; ``"paper"`` lets each pivot take the same whole number of tokens, rounded
    down, besides the image pivots.
    """

    layer: int = 2
    quota: str = "exact"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layer < 1:
            raise UsageError(f"layer must be 1 or more, got {self.layer}")
        if self.quota not in _QUOTAS:
            raise UsageError(f"quota must be one of {', '.join(_QUOTAS)}, got {self.quota!r}")


class DartLayerPruner(VisualTokenPruner):
    """Duplication-aware reduction of tokens, behind an early decoder layer.

    Source: "Stop Looking for Important Tokens in Multimodal Language Models: Duplication Matters
    More", section 3 and its published code. The first ``layer`` decoder layers run on the whole
    prompt. Pivots are the tokens whose keys in the last of them, all heads taken together after
    rotation, have the largest L1 norm; text pivots come from behind the last image only, where the
    question is. Each pivot in turn adds the tokens of the span least similar to it by the cosine of
    the hidden states after the model's final norm. Defaults: layer 2, a quarter of the visual
    tokens removed, 4 image and 4 text pivots. Cost: that of ``dart``, and the first layers at full
    length: of 36 layers, 2 give up a twentieth of what pruning saves. Use it to compare with the
    literature, or where embeddings alone judge badly; ``dart`` is the simpler choice, and the only
    one of both for backends that cannot stop on the way.

    The authors take one image per prompt; here each span has its own quota and pivots, and shares
    the text's. Dropped tokens leave the KV cache of the first layers too.
    """

    Options = DartLayerOptions
    options: DartLayerOptions

    @property
    def early_layers(self) -> int:
        return self.options.layer

    @keeps_quotas
    def select(self, request: PruneRequest) -> Tensor | Selection:
        """Return the kept visual rows, ascending.

        Raises:
            RequestError: no pivot at all: no text follows the images and image pivots are off.
        """
        early, layout = request.early, request.layout
        assert early is not None  # prune() sees to it
        image = self.options.pivot_image_tokens
        after = layout.length - layout.spans[-1].end
        text = min(self.options.pivot_text_tokens, after)
        if not image and not text:
            raise RequestError(
                "dart-layer has no pivot: no text follows the last image and pivot_image_tokens is"
                " 0; set it to 1 or more"
            )
        if self.options.quota == "paper":
            layout = self._paper_layout(request, image, text)
        on_gpu = kernels.usable(early.normed) and kernels.usable(early.keys)
        strength, l2 = _norms(early.keys, early.normed, on_gpu)
        # Text before or between images is no candidate: it comes last, and enough comes first.
        for start, end in layout.gaps[:-1]:
            strength[start:end] = -1.0
        if on_gpu:
            from .kernels.dart import dart_rows
            from .kernels.places import place_table

            table = place_table(layout, strength.device)
            rows = dart_rows(early.normed, strength, l2, layout, table, image, text)
        else:
            rows = torch_rows(early.normed, strength, l2, layout, image, text)
        return rows if layout is request.layout else Selection(rows)

    def _paper_layout(self, request: PruneRequest, image: int, text: int) -> Layout:
        """Each of a span's pivots takes ``floor(n * (1 - ratio) / pivots)`` of its tokens."""
        nominal = self.options.pivot_image_tokens + self.options.pivot_text_tokens
        counts = []
        for span, ratio in zip(request.io.spans, request.ratios, strict=True):
            left = len(span) * (1.0 - ratio)
            share = math.floor(left / nominal + 1e-9)
            count = image + (image + text) * share
            counts.append(max(1, min(len(span), count)))
        return Layout.of(request.io, tuple(counts))


def _norms(keys: Tensor, normed: Tensor, on_gpu: bool) -> tuple[Tensor, Tensor]:
    """L1 norms of ``keys`` and L2 norms of ``normed``, each ``[T]`` fp32."""
    if not on_gpu:
        return torch_l1(keys), torch_l2(normed)
    from .kernels.norms import row_norms

    return row_norms(keys)[0], row_norms(normed)[1]
