"""Texts to calibrate on, and the token ids made of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from ...core import UsageError


def read_texts(path: Path) -> Iterator[str]:
    """The documents of a file.

    ``.jsonl``: one object with ``text`` a line. Any other: plain text, documents separated by
    blank lines; a file without a blank line has a document on each line.

    Raises:
        UsageError: the file cannot be read, or a line is not such an object.
    """
    try:
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as UTF-8 text ({error})") from None
    if path.suffix != ".jsonl":
        separator = "\n\n" if "\n\n" in content.strip() else "\n"
        yield from (document for document in content.split(separator) if document.strip())
        return
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            yield str(json.loads(line)["text"])
        except (json.JSONDecodeError, KeyError, TypeError):
            raise UsageError(
                f'{path}: line {number} is not a JSON object with "text", such as'
                ' {"text": "A document."}'
            ) from None


def token_block(
    documents: Iterable[str],
    encode: Callable[[str], list[int]],
    sequences: int,
    length: int,
    *,
    separator: int | None = None,
) -> Tensor:
    """Token ids ``[sequences,length]`` without padding.

    The first ``length`` tokens of each document that has as many, as the method does it; or, given
    a ``separator`` id, all documents joined by it and cut into pieces.

    Raises:
        UsageError: the documents do not suffice.
    """
    rows: list[list[int]] = []
    joined: list[int] = []
    longest = 0
    for document in documents:
        ids = encode(document)
        longest = max(longest, len(ids))
        if separator is not None:
            joined += [*ids, separator]
            while len(joined) >= length:
                rows.append(joined[:length])
                del joined[:length]
        elif len(ids) >= length:
            rows.append(ids[:length])
        if len(rows) >= sequences:
            return torch.tensor(rows[:sequences])
    remedy = f"give more text, lower --sequences to {len(rows)}, or lower --max-len"
    if separator is None:
        remedy += ", or join short texts with --pack"
    raise UsageError(
        f"{sequences} texts of {length} tokens are wanted, there are {len(rows)} (the longest has"
        f" {longest}); {remedy}"
    )
