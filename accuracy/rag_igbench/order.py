"""Which images were chosen, and in which order: edit distance and Kendall score."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from .errors import Undefined

_BETA = 0.5


def edit_distance(generated: Sequence[int], reference: Sequence[int]) -> float:
    """``1 - d / longer length`` with ``d`` the fewest insertions, deletions and replacements.

    Raises:
        Undefined: both lists are empty.
    """
    longest = max(len(generated), len(reference))
    if not longest:
        raise Undefined("neither the answer nor the reference has an image")
    previous = list(range(len(reference) + 1))
    for row, mine in enumerate(generated, 1):
        current = [row]
        for column, wanted in enumerate(reference, 1):
            replaced = previous[column - 1] + (mine != wanted)
            current.append(min(replaced, previous[column] + 1, current[-1] + 1))
        previous = current
    return 1 - previous[-1] / longest


def kendall_paper(generated: Sequence[int], reference: Sequence[int]) -> float:
    """The paper's Kendall score: the share of common images' pairs that are in the same order.

    With fewer than two images in common, how many there are over the longer length. The paper does
    not say what becomes of an image that is repeated; here its first appearance counts.

    Raises:
        Undefined: both lists are empty.
    """
    mine, wanted = list(dict.fromkeys(generated)), list(dict.fromkeys(reference))
    if not mine and not wanted:
        raise Undefined("neither the answer nor the reference has an image")
    common = [image for image in mine if image in wanted]
    if len(common) < 2:
        return len(common) / max(len(mine), len(wanted))
    pairs = [wanted.index(a) < wanted.index(b) for a, b in combinations(common, 2)]
    return sum(pairs) / len(pairs)


def kendall_raw(generated: Sequence[int], reference: Sequence[int]) -> float:
    """The published code's Kendall score, before :func:`with_difficulty`.

    Pairs in the same order over all pairs of *generated* images, so images that are not in the
    reference cost something, and 0 for no image where there should be some. A repetition is never
    in order with itself, and the last appearance counts in the reference.

    Raises:
        Undefined: the formula divides by zero: there is no reference image, and at most one
            generated.
    """
    common = [image for image in generated if image in reference]
    if not generated and reference:
        return 0.0
    if len(reference) == 1:
        return len(common) / len(generated)
    if not reference and len(generated) < 2:
        raise Undefined("the reference has no image")
    if len(generated) == 1:
        return len(common) / len(reference)
    place = {image: number for number, image in enumerate(reference)}
    concordant = sum(place[a] < place[b] for a, b in combinations(common, 2))
    return concordant / (len(generated) * (len(generated) - 1) / 2)


def with_difficulty(kendall: float, candidates: int, wanted: int) -> float:
    """The published code's adjustment: the more candidates per reference image, the more it counts.

    Args:
        candidates: how many images there were to choose from.
        wanted: how many the reference has.

    Raises:
        Undefined: there was nothing to choose from.
    """
    if not candidates:
        raise Undefined("the sample has no candidate image")
    return kendall * (1 + _BETA * (candidates - wanted) / candidates) / (1 + _BETA)
