"""Answers survive whatever happens to the process that writes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgevlm.accuracy.evaluation import Answer
from edgevlm.accuracy.evaluation.answer import Times
from edgevlm.accuracy.evaluation.journal import FILE, Journal, locked
from edgevlm.core import UsageError

FOUND = [
    Answer("e", "s", str(i), text=f"é\n{i}", score=i / 4, visual_tokens=(8, 4), times=Times(2.5, 1))
    for i in range(4)
]


@given(st.text(), st.none() | st.floats(0, 1), st.none() | st.text())
def test_a_line_reads_back_as_it_was(text: str, score: float | None, error: str | None) -> None:
    answer = Answer("e", "s", "1", text=text, read=text or None, score=score, error=error)
    line = answer.to_line()
    assert line.endswith("\n") and line.count("\n") == 1
    assert Answer.from_line(line.encode("utf-8", "surrogatepass")) == answer


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    Journal(tmp_path).append(FOUND)
    return (tmp_path / FILE).read_bytes()


def test_cut_anywhere_it_keeps_the_whole_answers(tmp_path: Path, content: bytes) -> None:
    for end in range(0, len(content) + 1, 7):
        (tmp_path / FILE).write_bytes(content[:end])
        whole = content[:end].count(b"\n")
        if content[end : end + 1] == b"\n":
            whole += 1  # all of the line but its end
        journal = Journal(tmp_path)
        assert list(journal.answers.values()) == FOUND[:whole]
        assert journal.append(FOUND) == len(FOUND) - whole
        assert list(Journal(tmp_path).answers.values()) == FOUND


def test_a_damaged_line_in_the_middle_is_answered_again(tmp_path: Path, content: bytes) -> None:
    lines = content.splitlines(keepends=True)
    (tmp_path / FILE).write_bytes(b"".join([lines[0], b"\x00\x00\n", *lines[2:]]))
    assert [key[2] for key in Journal(tmp_path).answers] == ["0", "2", "3"]


def test_sorting_keeps_what_the_order_does_not_name(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(FOUND)
    journal.sort([FOUND[2].key, ("e", "s", "absent"), FOUND[0].key])
    assert [answer.sample for answer in Journal(tmp_path).answers.values()] == ["2", "0", "1", "3"]


def test_two_runs_cannot_write_to_one_folder(tmp_path: Path) -> None:
    with locked(tmp_path / "out"):
        taken = locked(tmp_path / "out")
        with pytest.raises(UsageError, match="another run is writing there"):
            taken.__enter__()
    with locked(tmp_path / "out"):
        pass
