"""MMMU, as published: one folder of parquet files per subject, or VLMEvalKit's table.

Columns of the parquet files: id (``validation_Accounting_1``), question, options (a Python list as
text), answer, image_1 to image_7, question_type, subfield. ``<image n>`` in a question or an option
is where image n is shown. The table has base64 images in one column, options in columns A, B, ...
Source: Yue et al., MMMU (CVPR 2024); data set MMMU/MMMU.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...core import RequestError
from .draft import (
    LETTER,
    PHRASE,
    Convert,
    Draft,
    Image,
    image_of,
    letter_columns,
    lettered,
    optional_text,
    text_of,
)
from .rows import Row

_MARKER = re.compile(r"<image (\d)>")
_MOST_IMAGES = 7


def converter(split: str) -> Convert:
    """A converter of the rows of one split."""
    return partial(_convert, split)


def _convert(split: str, row: Row, file: Path) -> Draft | None:
    sample = text_of(row, "id")
    named, _, rest = sample.partition("_")
    if (optional_text(row, "split") or named) != split:
        return None
    options = _options(row)
    closed = bool(options)
    question = text_of(row, "question").strip()
    asked = f"{question}\n{lettered(options)}\n{LETTER}" if closed else f"{question}\n{PHRASE}"
    answer = text_of(row, "answer").strip()
    if answer == "?":
        raise RequestError(f"has no answer: those of the split {split!r} are not published")
    return Draft(
        id=sample,
        task=optional_text(row, "category") or rest.rpartition("_")[0] or file.parent.name,
        subtask=optional_text(row, "subfield") or optional_text(row, "l2-category"),
        parts=_interleaved(asked, _images(row)),
        answers=(answer,) if closed else _listed(answer) or (answer,),
        scoring="choice" if closed else "free",
        choices=options,
    )


def _options(row: Row) -> tuple[str, ...]:
    columns = letter_columns(row)
    if columns:
        return columns
    written = optional_text(row, "options")
    options = _listed(written)
    if written and options is None:
        raise RequestError(f"options is not a list: {written[:60]}; fetch the file again")
    return options or ()


def _listed(text: str) -> tuple[str, ...] | None:
    """A Python list written as text, or ``None``."""
    try:
        value: Any = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return tuple(str(entry) for entry in value) if isinstance(value, list) else None


def _images(row: Row) -> dict[int, bytes]:
    """Images by number."""
    table = optional_text(row, "image")
    if table:
        encoded = _listed(table) if table.startswith("[") else (table,)
        return {n: image_of(entry, "image") for n, entry in enumerate(encoded or (), 1)}
    names = {number: f"image_{number}" for number in range(1, _MOST_IMAGES + 1)}
    return {n: image_of(row[name], name) for n, name in names.items() if row.get(name) is not None}


def _interleaved(text: str, images: dict[int, bytes]) -> Sequence[str | Image]:
    """Text with images where their markers are; images without one come first."""
    pieces = _MARKER.split(text)  # text, number, text, number, ..., text
    marked = {int(number) for number in pieces[1::2]}
    if missing := sorted(marked - images.keys()):
        raise RequestError(f"shows <image {missing[0]}>, which it does not have; fetch it again")
    parts: list[str | Image] = [image for n, image in images.items() if n not in marked]
    for place, piece in enumerate(pieces):
        if place % 2:
            parts.append(images[int(piece)])
        elif piece.strip():
            parts.append(piece.strip())
    return parts
