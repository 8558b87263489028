"""Texts of the tiny world, for calibrations that want some: questions with their answers.

python -m edgevlm.accuracy.tiny.texts --output texts.jsonl --prompts 2000
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...runtime import write_atomically
from .buckets import BUCKETS
from .samples import draw_sample

_QUESTIONS = 8


def texts(prompts: int, seed: int = 0) -> Iterator[str]:
    """One text per prompt: its questions, each followed by its answer. None is held out."""
    buckets = list(BUCKETS.values())
    for index in range(prompts):
        bucket = buckets[index % len(buckets)]
        sample = draw_sample(bucket, index, split="train", seed=seed, questions=_QUESTIONS)
        yield "\n".join(f"{question.text}\n{question.answer}" for question in sample.questions)


def main(argv: Sequence[str] | None = None) -> None:
    """Write the texts as JSON lines."""
    parser = argparse.ArgumentParser(description="Texts of the tiny world.")
    parser.add_argument("--output", type=Path, required=True, help="JSON lines with a text each")
    parser.add_argument("--prompts", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    lines = (json.dumps({"text": text}) for text in texts(arguments.prompts, arguments.seed))
    write_atomically(arguments.output, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
