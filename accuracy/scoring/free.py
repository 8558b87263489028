"""Short free answers: equal as a reader would say, whatever the case, quotes or number format."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from .normal import plain, single_spaced, without_thoughts
from .registry import SCORINGS, Verdict

_LEAD_IN = re.compile(
    r"^(?:the\s+)?(?:final\s+|correct\s+)?answer(?:\s+is\b\s*:?|\s*:)\s*", re.IGNORECASE
)
_NUMBER = re.compile(r"[$€£]?\s*([-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|[-+]?\.\d+)\s*%?")


@SCORINGS.register("free")
def free(text: str, answers: Sequence[str], choices: Sequence[str] = ()) -> Verdict:
    """1 where ``text`` equals one of ``answers`` after both were brought into one form.

    Case, outer punctuation and "The answer is" do not matter; numbers are compared by value, with
    thousands separators, a currency sign before or a per cent sign after them.
    """
    read = comparable(_LEAD_IN.sub("", without_thoughts(text).strip()))
    right = read in {comparable(answer) for answer in answers}
    return Verdict(float(bool(read) and right), read or None)


def comparable(text: str) -> str:
    """The one form: a number's shortest decimal notation, or plain text."""
    number = _NUMBER.fullmatch(single_spaced(text).strip("\"'`*_ ").rstrip("."))
    if number is None:
        return plain(text)
    value = Decimal(number[1].replace(",", ""))
    return f"{value.normalize():f}" if value else "0"
