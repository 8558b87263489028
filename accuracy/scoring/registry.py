"""The named scorings and what they return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...core import Registry


@dataclass(frozen=True)
class Verdict:
    """How right an answer is.

    Attributes:
        score: 0 to 1; ``None`` where the scoring collects answers without judging them.
        read: what the answer was understood as; ``None`` where nothing could be made of it.
    """

    score: float | None
    read: str | None


Scoring = Callable[[str, Sequence[str], Sequence[str]], Verdict]
"""``(text, answers, choices) -> Verdict``; any of ``answers`` is right, choices may be empty."""

SCORINGS: Registry[Scoring] = Registry("scoring")


def score(name: str, text: str, answers: Sequence[str], choices: Sequence[str] = ()) -> Verdict:
    """Score ``text`` with the scoring called ``name``.

    Raises:
        UsageError: there is no such scoring; the message lists the known ones.
    """
    return SCORINGS.get(name)(text, answers, choices)


@SCORINGS.register("none")
def none(text: str, answers: Sequence[str], choices: Sequence[str]) -> Verdict:
    """Judge nothing: the answers are wanted, for a tool of their own to score."""
    return Verdict(None, text)
