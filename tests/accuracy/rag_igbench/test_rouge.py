"""ROUGE-1 against values worked out by hand, and the optional package."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from edgevlm.accuracy.rag_igbench.errors import Undefined
from edgevlm.accuracy.rag_igbench.rouge import Rouge1, jieba_segmenter, read_stop_words
from edgevlm.core import UsageError

ROUGE = Rouge1(str.split, {"the", "的"})


@pytest.mark.parametrize(
    ("generated", "reference", "value"),
    [
        ("a b c d", "a b", 2 * (0.5 * 1) / 1.5),
        ("a a a a", "a", 1.0),  # distinct words only
        ("the a", "the b", 0.0),  # stop words do not count
        ("的 天安门", "天安门", 1.0),
        ("3.5 x", "3 5 x", 1.0),  # words end at full stops
        ("a", "b", 0.0),
    ],
)
def test_values(generated: str, reference: str, value: float) -> None:
    assert ROUGE(generated, reference) == pytest.approx(value, abs=1e-7)


@pytest.mark.parametrize(("generated", "reference"), [("", "a"), ("a", ""), ("the", "a")])
def test_no_words(generated: str, reference: str) -> None:
    with pytest.raises(Undefined, match="has no words"):
        ROUGE(generated, reference)


def test_jieba_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jieba", None)  # as if it were not installed
    with pytest.raises(UsageError, match="pip install jieba"):
        jieba_segmenter()


def test_jieba_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = ModuleType("jieba")
    fake.setLogLevel = lambda level: None  # type: ignore[attr-defined]
    fake.cut = list  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jieba", fake)
    assert list(jieba_segmenter()("看旗")) == ["看", "旗"]


def test_stop_words(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("的\n\n \n了\n", encoding="utf-8")
    assert read_stop_words(file) == {"的", "", " ", "了"}
    with pytest.raises(UsageError, match=r"stop words .*absent.txt: cannot be read"):
        read_stop_words(tmp_path / "absent.txt")
