"""The algorithms once more, slowly: numpy in double precision, one token at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

SCORES = [0.1, 0.9, 0.3, 0.8, 0.2, 0.7, 0.05, 0.6, 0.4, 0.5]  # importance in the golden vectors


def golden_rows(rows: int, columns: int) -> np.ndarray:
    i, j = np.mgrid[:rows, :columns]
    return ((7 * i + 3 * j + 2 * i * j + 1) % 11 - 5).astype(float)


def cosines(rows: np.ndarray) -> np.ndarray:
    rows = rows.astype(float)
    result = np.zeros((len(rows), len(rows)))
    for i, one in enumerate(rows):
        for j, other in enumerate(rows):
            result[i, j] = one @ other / max(math.sqrt(one @ one) * math.sqrt(other @ other), 1e-8)
    return result


def strongest(scores: Sequence[float], candidates: Sequence[int] | None = None) -> list[int]:
    pool = range(len(scores)) if candidates is None else candidates
    return sorted(pool, key=lambda place: (-scores[place], place))


def divprune(rows: np.ndarray, count: int) -> list[int]:
    distance = 1 - cosines(rows)
    picked: list[int] = []
    while len(picked) < count:
        score = [-math.inf] * len(rows)
        for i in range(len(rows)):
            if i not in picked:
                score[i] = min(
                    (distance[i, j] for j in picked or range(len(rows)) if j != i), default=0
                )
        picked.append(strongest(score)[0])
    return picked


def scope(
    rows: np.ndarray, importance: Sequence[float], count: int, alpha: float = 1.0, add: bool = False
) -> list[int]:
    similar = cosines(rows)
    picked: list[int] = []
    while len(picked) < count:
        score = [-math.inf] * len(rows)
        for j in set(range(len(rows))) - set(picked):
            gain = sum(
                max(0, similar[i, j] - max([0, *similar[i, picked]])) for i in range(len(rows))
            )
            weight = importance[j] ** alpha
            score[j] = gain + weight if add else gain * weight
        picked.append(strongest(score)[0])
    return picked


def vispruner(
    rows: np.ndarray, importance: Sequence[float], count: int, important: int, step: int
) -> list[int]:
    similar = cosines(rows)
    ranked = strongest(importance)
    kept, rest = ranked[:important], ranked[important:]
    while len(rest) > count - important:
        if count == important:
            return kept
        first, second = rest[::2], rest[1::2]
        worst = {a: max(similar[a, b] for b in second) for a in first}
        # Most redundant first; of equals, the one dealt last.
        order = sorted(first, key=lambda a: (worst[a], first.index(a)), reverse=True)
        rest = order[min(step, len(rest) - (count - important)) :] + second
    return kept + rest


def share_out(total: int, weights: Sequence[float], sizes: Sequence[int]) -> list[int]:
    """Shares by water-filling: the level, shares per weight, at which the parts hold ``total``."""
    weights = [Fraction(weight) for weight in weights]
    full: set[int] = set()
    level = Fraction(0)
    for _ in sizes:
        room = [part for part in range(len(sizes)) if part not in full]
        if not sum(weights[part] for part in room):
            weights = [Fraction(1)] * len(sizes)
        left = total - sum(sizes[part] for part in full)
        level = left / sum(weights[part] for part in room) if room else level
        full |= {part for part in room if weights[part] * level >= sizes[part]}
    shares = [
        size if part in full else int(weight * level)
        for part, (weight, size) in enumerate(zip(weights, sizes, strict=True))
    ]
    room = [part for part in range(len(sizes)) if part not in full]
    for part in strongest(weights, room)[: total - sum(shares)]:
        shares[part] += 1
    return shares


def holov(
    rows: np.ndarray, importance: Sequence[float], count: int, chunks: int, beta: float
) -> list[int]:
    regions = [list(part) for part in np.array_split(np.arange(len(rows)), min(chunks, len(rows)))]
    attention = [1000 * value for value in importance]
    variance = [0.0] * len(rows)
    for region in regions:
        similar = cosines(rows[region])
        np.fill_diagonal(similar, 0)
        for place, row in zip(region, similar, strict=True):
            mean = row.sum() / max(1, len(region) - 1)
            variance[place] = ((row - mean) ** 2).sum() / max(1, len(region) - 1)
    scale = np.mean(attention) / (np.mean(variance) + 1e-6)
    weights = [
        np.mean([attention[i] + beta * scale * variance[i] for i in region]) for region in regions
    ]
    quotas = share_out(count, weights, [len(region) for region in regions])
    kept = [strongest(attention, part)[:q] for part, q in zip(regions, quotas, strict=True)]
    return [place for part in kept for place in part]


def visionzip(
    scores: Sequence[float], images: Sequence[Sequence[int]], budget: int, guaranteed: int
) -> list[int]:
    """``images`` holds the places of each image's tokens in ``scores``."""
    first = {place for image in images for place in strongest(scores, image)[:guaranteed]}
    places = [place for image in images for place in image]
    return sorted(places, key=lambda place: (place not in first, -scores[place], place))[:budget]


def contextual(rows: np.ndarray, count: int) -> dict[int, list[int]]:
    """The members of each target, the target itself first."""
    similar = cosines(rows)
    step = max(1, len(rows) // count)
    members = {target: [target] for target in list(range(0, len(rows), step))[:count]}
    for place in range(len(rows)):
        if place not in members:
            members[max(members, key=lambda target: similar[place, target])].append(place)
    return members
