"""Scoring: how right an answer is, from 0 to 1, and what was read into it.

A scoring is a function ``(text, answers, choices) -> Verdict``; a data set's samples name the one
they want. One's own is registered in :data:`SCORINGS`.
"""

from .anls import anls
from .choice import choice
from .exact import exact
from .free import free
from .registry import SCORINGS, Scoring, Verdict, score

__all__ = [
    "SCORINGS",
    "Scoring",
    "Verdict",
    "anls",
    "choice",
    "exact",
    "free",
    "score",
]
