"""Prompts of the tiny world, each a pure function of (split, seed, bucket, index)."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

from .buckets import Bucket
from .questions import Question, ask
from .scenes import Scene, draw_scene
from .tables import draw_table

SPLITS = ("train", "heldout")
_SINGLE_LABEL_SHARE = 0.35
_ATTEMPTS = 200


@dataclass(frozen=True)
class Sample:
    """The scenes of one prompt, in order, and independent questions about them."""

    bucket: Bucket
    scenes: tuple[Scene, ...]
    questions: tuple[Question, ...]

    def __post_init__(self) -> None:
        if len(self.scenes) != self.bucket.images:
            raise ValueError(f"{len(self.scenes)} scenes in a prompt of {self.bucket.images}")


def draw_sample(
    bucket: Bucket,
    index: int,
    *,
    split: str,
    seed: int,
    questions: int,
    tasks: Sequence[str] | None = None,
) -> Sample:
    """Prompt number ``index`` of a stream.

    Args:
        split: ``"train"`` or ``"heldout"``; their streams never meet, whatever the seed.
        questions: how many to ask.
        tasks: ask only these families, equally often; all of the bucket's by weight if ``None``.
    """
    if split not in SPLITS:
        raise ValueError(f"split {split!r} is not one of {SPLITS}")
    rng = random.Random(_key(split, seed, bucket.name, index))
    offered = dict(bucket.tasks)
    if tasks is not None:
        if unknown := [task for task in tasks if task not in offered]:
            raise ValueError(f"bucket {bucket.name} has no task {unknown}; it has {list(offered)}")
        offered = dict.fromkeys(tasks, 1)
    for _ in range(_ATTEMPTS):
        scenes = tuple(_draw(rng, bucket) for _ in range(bucket.images))
        asked = _ask_distinct(rng, scenes, offered, questions)
        if len(asked) == questions:
            return Sample(bucket, scenes, tuple(asked))
    raise RuntimeError(
        f"no scene of {bucket.name} allowed {questions} questions of {list(offered)}"
    )


def _draw(rng: random.Random, bucket: Bucket) -> Scene:
    if bucket.table:
        return draw_table(rng, bucket.table)
    single = rng.random() < _SINGLE_LABEL_SHARE
    return draw_scene(rng, smallest=bucket.smallest, single_label=single)


def _ask_distinct(
    rng: random.Random, scenes: tuple[Scene, ...], offered: dict[str, int], wanted: int
) -> list[Question]:
    names, weights = list(offered), list(offered.values())
    asked: list[Question] = []
    texts: set[str] = set()
    for task in rng.choices(names, weights, k=4 * wanted):
        question = ask(task, rng, scenes)
        if question is None or question.text in texts:
            continue
        texts.add(question.text)
        asked.append(question)
        if len(asked) == wanted:
            break
    return asked


def _key(split: str, seed: int, bucket: str, index: int) -> int:
    text = f"{split}/{seed}/{bucket}/{index}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())
