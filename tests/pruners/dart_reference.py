"""DART once more, slowly: plain Python numbers in double precision, one token at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

Rows = Sequence[Sequence[float]]


def dart_reference(
    rows: Rows,
    spans: Sequence[tuple[int, int]],
    ratio: float,
    image_pivots: int,
    text_pivots: int,
) -> list[int]:
    """The kept visual rows, ascending."""
    strength = [sum(abs(value) for value in row) for row in rows]
    visual = {row for start, end in spans for row in range(start, end)}
    text = [row for row in range(len(rows)) if row not in visual]
    shared = strongest(text, strength)[:text_pivots]
    kept: list[int] = []
    for start, end in spans:
        pool = list(range(start, end))
        quota = max(1, math.ceil(len(pool) * (1 - ratio) - 1e-9))
        own = strongest(pool, strength)[: min(image_pivots, quota)]
        retained = list(own)
        pivots = own + shared
        for turn, pivot in enumerate(pivots):
            pool = [row for row in pool if row not in retained]
            pool.sort(key=lambda row: (cosine(rows[pivot], rows[row]), row))
            retained += pool[: math.ceil((quota - len(retained)) / (len(pivots) - turn))]
        kept += retained
    return sorted(kept)


def strongest(candidates: Sequence[int], strength: Sequence[float]) -> list[int]:
    return sorted(candidates, key=lambda row: (-strength[row], row))


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    return dot / max(math.hypot(*one) * math.hypot(*other), 1e-8)
