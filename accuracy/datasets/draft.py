"""What a converter makes of a published row, before its images are files."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from ...core import RequestError
from .rows import Row
from .sample import MAX_TOKENS

Image = bytes | Path
"""An encoded image, or the file that holds one."""

LETTER = "Answer with the option's letter from the given choices directly."
PHRASE = "Answer the question using a single word or phrase."


@dataclass(frozen=True)
class Draft:
    """A sample whose ``parts`` are texts and images, in the order they are shown."""

    id: str
    task: str
    parts: Sequence[str | Image]
    answers: Sequence[str]
    scoring: str
    choices: Sequence[str] = field(default=())
    subtask: str = ""
    max_tokens: int = MAX_TOKENS


Convert = Callable[[Row, Path], Draft | None]
"""``(row, file) -> draft``; ``None`` for a row of another split. Raises ``RequestError``."""


def text_of(row: Row, name: str) -> str:
    """A column that must hold something, as text.

    Raises:
        RequestError: it is missing or empty.
    """
    value = row.get(name)
    if value is None or str(value).strip() == "":
        columns = ", ".join(sorted(map(str, row)))
        raise RequestError(f"column {name!r} is missing or empty; columns: {columns}")
    return str(value)


def optional_text(row: Row, name: str) -> str:
    """A column that may be absent; ``nan`` is how tables write nothing."""
    value = row.get(name)
    return "" if value is None or str(value).strip() in ("", "nan") else str(value)


def letter_columns(row: Row) -> tuple[str, ...]:
    """The options in columns ``A``, ``B``, ...; as many as are filled."""
    options = []
    for letter in ascii_uppercase:
        option = optional_text(row, letter)
        if not option:
            break
        options.append(option)
    return tuple(options)


def lettered(options: Sequence[str]) -> str:
    """The options as lines of a prompt."""
    return "\n".join(f"{a}. {o}" for a, o in zip(ascii_uppercase, options, strict=False))


def image_of(value: Any, name: str) -> bytes:
    """An image as parquet files hold it (bytes, alone or in a record) or as base64 text.

    Raises:
        RequestError: there is none, or the text is not base64.
    """
    if isinstance(value, dict):
        value = value.get("bytes")
    if isinstance(value, str) and value:
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise RequestError(f"column {name!r} holds no base64 image; fetch it again") from None
    if isinstance(value, bytes) and value:
        return value
    raise RequestError(f"column {name!r} holds no image; fetch the file again")
