"""ROUGE-1 on Chinese words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from ...core import UsageError
from .errors import Undefined
from .optional import require

Segmenter = Callable[[str], Iterable[str]]


@dataclass(frozen=True)
class Rouge1:
    """Words of both texts compared, without stop words.

    The F-measure is that of the package ``rouge`` with its defaults, which the authors use: it is
    over *distinct* words, and a word is split at full stops.
    """

    segment: Segmenter
    stop_words: Collection[str]

    def __call__(self, generated: str, reference: str) -> float:
        """F-measure of two texts.

        Raises:
            Undefined: one of them has no words.
        """
        mine, wanted = self._words(generated), self._words(reference)
        if not mine or not wanted:
            raise Undefined("the text of the answer or of the reference has no words")
        common = len(mine & wanted)
        precision, recall = common / len(mine), common / len(wanted)
        return 2 * precision * recall / (precision + recall + 1e-8)

    def _words(self, text: str) -> set[str]:
        kept = " ".join(word for word in self.segment(text) if word not in self.stop_words)
        sentences = [" ".join(piece.split()) for piece in kept.split(".") if piece]
        # A blank between two full stops counts as an empty word there, so it does here.
        return {word for sentence in sentences for word in sentence.split(" ")}


def jieba_segmenter() -> Segmenter:
    """Words as ``jieba`` cuts them.

    Raises:
        UsageError: it is not installed.
    """
    jieba = require("jieba", "jieba", "ROUGE-1 needs it to cut Chinese text")
    jieba.setLogLevel("WARNING")
    segment: Segmenter = jieba.cut
    return segment


def read_stop_words(path: Path) -> frozenset[str]:
    """Stop words, one a line, as in the benchmark's ``score/cn_stopwords.txt``.

    Raises:
        UsageError: the file cannot be read.
    """
    try:
        return frozenset(path.read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"stop words {path}: cannot be read ({error})") from None
