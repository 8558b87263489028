"""Documents of a file and the token blocks made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgevlm.core import UsageError
from edgevlm.plugins.sere import read_texts, token_block


def encode(text: str) -> list[int]:
    return [ord(letter) for letter in text]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", "one\ntwo\n", ["one", "two"]),
        ("a.txt", "one\nmore\n\ntwo\n\n\n", ["one\nmore", "two"]),
        ("a.jsonl", '{"text": "one", "id": 1}\n\n{"text": "two\\n\\n"}\n', ["one", "two\n\n"]),
    ],
)
def test_documents(name: str, content: str, expected: list[str], tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    assert list(read_texts(tmp_path / name)) == expected


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.txt: no such file"):
        list(read_texts(tmp_path / "none.txt"))
    (tmp_path / "bad.jsonl").write_text('{"text": "one"}\n["two"]\n')
    with pytest.raises(UsageError, match=r"bad\.jsonl: line 2 is not a JSON object with .text."):
        list(read_texts(tmp_path / "bad.jsonl"))
    (tmp_path / "image.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read as UTF-8 text"):
        list(read_texts(tmp_path / "image.txt"))


def test_the_beginnings_of_texts_that_are_long_enough() -> None:
    block = token_block(["abcd", "ab", "xyz", "never read"], encode, 2, 3)
    assert block.tolist() == [encode("abc"), encode("xyz")]


def test_packed_texts_are_joined_by_the_separator() -> None:
    block = token_block(["ab", "cdefg", "h"], encode, 3, 3, separator=0)
    assert block.tolist() == [[*encode("ab"), 0], encode("cde"), [*encode("fg"), 0]]


def test_too_little_text_says_what_there_is() -> None:
    with pytest.raises(UsageError) as caught:
        token_block(["abcd", "ab"], encode, 2, 3)
    message = str(caught.value)
    assert "2 texts of 3 tokens are wanted, there are 1 (the longest has 4)" in message
    assert "--sequences to 1" in message and "--pack" in message
