"""Bringing text into one form before it is compared."""

from __future__ import annotations

import re
import unicodedata

_THOUGHT = re.compile(r"<think>.*?(</think>|\Z)", re.DOTALL)
_OUTER = " \t\n\r\"'`*_.,;:!?()[]{}"


def without_thoughts(text: str) -> str:
    """``text`` without what a reasoning model thought before it answered."""
    return _THOUGHT.sub("", text)


def single_spaced(text: str) -> str:
    """One space between words, none around them."""
    return " ".join(text.split())


def plain(text: str) -> str:
    """Lower case, compatibility characters replaced, no quotes or punctuation around it."""
    return single_spaced(unicodedata.normalize("NFKC", text).casefold()).strip(_OUTER)
