"""Multiple choice: which letter an answer means.

Models that are asked for a letter answer "B", "(B)", "B. a red square", "The answer is **B**.",
a paragraph that ends in a verdict, or the text of the option. The rules below are tried in order,
from the least to the most ambiguous; the first that names a letter decides. An answer that none of
them can read is wrong, and reports count it as unreadable: guessing a letter for it, as some
harnesses do, would reward it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from string import ascii_uppercase

from .normal import plain, without_thoughts
from .registry import SCORINGS, Verdict

_LETTERS_UNKNOWN = ascii_uppercase[:8]
_LETTER = r"[\s:*_=>\"'`]*[(\[{]?(?:\\text\{)?([A-Z])(?![\w'\u2019])"
_ALONE = re.compile(r"[\W_]*([A-Za-z])[\W_]*")
_LEADING = re.compile(r"[\s*_\"'`]*[(\[]?([A-Z])[*_]*(?:[)\].,:]|\s*\n|\s+[-\u2013\u2014=]\s)")
_ANSWER = re.compile(
    r"(?:\b[Aa]nswer|ANSWER|\\boxed)(?:\s+(?:is|would be|should be|must be))?"
    rf"(?:\s+(?:[Oo]ption|[Cc]hoice))?{_LETTER}"
    r"|(?<![\w'\u2019])([A-Z])[)\]}*]*\s+is\s+(?:the\s+)?(?:correct|right|best|answer)\b"
)
_OPTION = re.compile(rf"\b(?:[Oo]ption|[Cc]hoice|[Cc]orrect){_LETTER}")
_BRACKETED = re.compile(r"[(\[]([A-Z])[)\]]")
_STANDING = re.compile(r"(?<![\w'\u2019])([A-Z])(?![\w'\u2019])")


@SCORINGS.register("choice")
def choice(text: str, answers: Sequence[str], choices: Sequence[str]) -> Verdict:
    """1 where the letter that ``text`` means is among ``answers``, which are letters."""
    letter = read_choice(text, choices)
    return Verdict(float(letter is not None and letter in answers), letter)


def read_choice(text: str, choices: Sequence[str] = ()) -> str | None:
    """The letter that ``text`` means, or ``None``.

    Args:
        choices: the options' texts, ``A`` first; without them, ``A`` to ``H`` may be meant.
    """
    answer = without_thoughts(text)
    offered = ascii_uppercase[: len(choices)] if choices else _LETTERS_UNKNOWN
    for rule in _RULES:
        letter = rule(answer, choices)
        if letter is not None and letter in offered:
            return letter
    return None


def _alone(text: str, choices: Sequence[str]) -> str | None:
    """Nothing but a letter."""
    found = _ALONE.fullmatch(text)
    return found[1].upper() if found else None


def _leading(text: str, choices: Sequence[str]) -> str | None:
    """A letter set off at the beginning: ``B) ...``, ``(B) ...``, ``B. ...``."""
    found = _LEADING.match(text)
    return found[1] if found else None


def _stated(text: str, choices: Sequence[str]) -> str | None:
    """``the answer is B``, ``\\boxed{B}``, ``B is correct``; the last statement counts."""
    found = [match[1] or match[2] for match in _ANSWER.finditer(text)]
    return found[-1] if found else None


def _option(text: str, choices: Sequence[str]) -> str | None:
    """``option B``, where no other is mentioned."""
    return _only(_OPTION.findall(text))


def _bracketed(text: str, choices: Sequence[str]) -> str | None:
    """The only letter in brackets."""
    return _only(_BRACKETED.findall(text))


def _quoted(text: str, choices: Sequence[str]) -> str | None:
    """The option whose text the answer is, or the only one whose text is in it."""
    answer = plain(text)
    options = [plain(option) for option in choices]
    exact = [index for index, option in enumerate(options) if option and option == answer]
    if len(exact) == 1:
        return ascii_uppercase[exact[0]]
    held = [index for index, option in enumerate(options) if _holds(answer, option)]
    # "red square" is in "dark red square": the longer one was meant.
    longest = [
        index
        for index in held
        if not any(other != index and _holds(options[other], options[index]) for other in held)
    ]
    return ascii_uppercase[longest[0]] if len(longest) == 1 else None


def _standing(text: str, choices: Sequence[str]) -> str | None:
    """The only capital that stands alone; ``A`` and ``I`` at the start of a clause are words."""
    words = re.sub(r"(^|[.!?:]\s+)[AI](?=\s+(?!or\b|and\b)[a-z])", r"\1", text.strip())
    return _only(_STANDING.findall(words))


def _only(letters: Sequence[str]) -> str | None:
    return letters[0] if len(set(letters)) == 1 else None


def _holds(text: str, part: str) -> bool:
    return bool(part) and re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text) is not None


_RULES: tuple[Callable[[str, Sequence[str]], str | None], ...] = (
    _alone,
    _leading,
    _stated,
    _option,
    _bracketed,
    _quoted,
    _standing,
)
