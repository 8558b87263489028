"""MMStar, as published: ``mmstar.parquet`` with image bytes, or ``MMStar.tsv`` with base64.

Columns: index, question, image, answer, category, l2_category, and in the table also A to D. The
question names its options itself. Source: Chen et al., Are We on the Right Way for Evaluating Large
Vision-Language Models? (2024); data set Lin-Chen/MMStar.
"""

from __future__ import annotations

import re
from pathlib import Path
from string import ascii_uppercase

from .draft import (
    LETTER,
    Draft,
    image_of,
    letter_columns,
    lettered,
    optional_text,
    text_of,
)
from .rows import Row

_OPTION = re.compile(r"(?:^|[\s,(])([A-H])[:.)]\s*")


def convert(row: Row, file: Path) -> Draft:
    """One row as a draft.

    Raises:
        RequestError: a column is missing or of no use.
    """
    question = text_of(row, "question").strip()
    options = letter_columns(row)
    if options and "Options:" not in question:
        question = f"{question}\n{lettered(options)}"
    return Draft(
        id=text_of(row, "index"),
        task=text_of(row, "category"),
        subtask=optional_text(row, "l2_category"),
        parts=(image_of(row.get("image"), "image"), f"{question}\n{LETTER}"),
        answers=(text_of(row, "answer").strip(),),
        scoring="choice",
        choices=options or options_in(question),
    )


def options_in(question: str) -> tuple[str, ...]:
    """The options a question spells out as ``Options: A: ..., B: ...``; none if it does not."""
    _, marker, tail = question.partition("Options:")
    marks = list(_OPTION.finditer(tail))
    if not marker or [mark[1] for mark in marks] != list(ascii_uppercase[: len(marks)]):
        return ()
    ends = [mark.start() for mark in marks[1:]] + [len(tail)]
    texts = (tail[mark.end() : end] for mark, end in zip(marks, ends, strict=True))
    return tuple(text.strip().rstrip(",.").strip() for text in texts)
