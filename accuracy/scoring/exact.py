"""Exact match: the answer as it stands, but for white space around it."""

from __future__ import annotations

from collections.abc import Sequence

from .normal import without_thoughts
from .registry import SCORINGS, Verdict


@SCORINGS.register("exact")
def exact(text: str, answers: Sequence[str], choices: Sequence[str] = ()) -> Verdict:
    """1 where ``text`` is one of ``answers``, letter for letter."""
    read = without_thoughts(text).strip()
    return Verdict(float(read in {answer.strip() for answer in answers}), read or None)
