"""Texts for calibrations."""

from __future__ import annotations

from pathlib import Path

from edgevlm.accuracy.tiny import BUCKETS, draw_sample
from edgevlm.accuracy.tiny.texts import main, texts
from edgevlm.plugins.sere import read_texts


def test_questions_are_followed_by_their_answers() -> None:
    drawn = list(texts(len(BUCKETS) + 1, seed=4))
    buckets = [*BUCKETS.values(), next(iter(BUCKETS.values()))]
    for index, (text, bucket) in enumerate(zip(drawn, buckets, strict=True)):
        sample = draw_sample(bucket, index, split="train", seed=4, questions=8)
        lines = iter(text.split("\n"))
        pairs = list(zip(lines, lines, strict=True))
        assert pairs == [(question.text, question.answer) for question in sample.questions]
    assert len(set(drawn)) == len(drawn)


def test_a_seed_decides_everything() -> None:
    assert list(texts(3)) == list(texts(3, seed=0)) != list(texts(3, seed=1))


def test_a_file_as_the_calibration_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    main(["--output", str(path), "--prompts", "2", "--seed", "1"])
    assert list(read_texts(path)) == list(texts(2, seed=1))
