"""The growth kernel against growth in plain Python."""

from __future__ import annotations

import math

import pytest
import torch

from edgevlm.pruners.kernels.growth import grow

from .prompts import prompt


def grown(order: list[list[int]], pivots: list[int], quota: int) -> list[int]:
    kept = list(pivots)
    for turn, tokens in enumerate(order):
        share = math.ceil((quota - len(kept)) / (len(order) - turn))
        kept += [token for token in tokens if token not in kept][:share]
    return sorted(kept)


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.95])
@pytest.mark.parametrize(
    ("length", "spans", "image", "text"),
    [
        (40, [(3, 36)], 4, 4),
        (30, [(0, 9), (9, 10), (12, 29)], 2, 3),
        (24, [(0, 24)], 3, 4),
        (30, [(2, 26)], 0, 2),
        (2500, [(1, 2300), (2301, 2400)], 2, 2),  # more than one chunk
    ],
)
def test_growth(length, spans, image, text, ratio) -> None:
    made = prompt(length, spans, hidden=1, planes=0, ratio=ratio)
    layout, generator = made.layout, torch.Generator().manual_seed(length)
    orders = torch.zeros(image + text, layout.visual_tokens, dtype=torch.int32)
    pivots = torch.full((len(spans) + 1, max(image, text)), -1, dtype=torch.int32)
    expected, column = [], 0
    for index, (place, quota) in enumerate(zip(layout.places, layout.counts, strict=True)):
        own = torch.randperm(place.length, generator=generator)[: min(image, quota)].int()
        pivots[index, : len(own)] = place.start + own
        turns = len(own) + min(text, layout.text_tokens)
        order = torch.stack(
            [torch.randperm(place.length, generator=generator) for _ in range(turns)]
        )
        orders[:turns, column : column + place.length] = order
        column += place.length
        kept = grown(order.tolist(), own.tolist(), quota)
        expected += [place.start + token for token in kept]
    found = grow(orders, made.table, layout, pivots, image, text)
    assert found.tolist() == expected
