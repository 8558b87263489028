"""ANLS: average normalised Levenshtein similarity, for answers read off a picture.

Source: Biten et al., Scene Text Visual Question Answering (ICCV 2019), equation 1, threshold 0.5.
"""

from __future__ import annotations

from collections.abc import Sequence

from .normal import single_spaced, without_thoughts
from .registry import SCORINGS, Verdict

THRESHOLD = 0.5


@SCORINGS.register("anls")
def anls(text: str, answers: Sequence[str], choices: Sequence[str] = ()) -> Verdict:
    """The best similarity to any of ``answers``; 0 where half or more of the characters differ."""
    read = single_spaced(without_thoughts(text)).lower()
    best = max((similarity(read, single_spaced(answer).lower()) for answer in answers), default=0.0)
    return Verdict(best, read or None)


def similarity(first: str, second: str) -> float:
    """``1 - distance / longer length`` where that distance is below the threshold, else 0."""
    longer = max(len(first), len(second))
    if not longer:
        return 1.0
    distance = levenshtein(first, second) / longer
    return 1.0 - distance if distance < THRESHOLD else 0.0


def levenshtein(first: str, second: str) -> int:
    """Insertions, deletions and replacements of one character between two strings."""
    row = list(range(len(second) + 1))
    for i, left in enumerate(first, 1):
        diagonal, row[0] = row[0], i
        for j, right in enumerate(second, 1):
            diagonal, row[j] = (
                row[j],
                min(row[j] + 1, row[j - 1] + 1, diagonal + (left != right)),
            )
    return row[-1]
