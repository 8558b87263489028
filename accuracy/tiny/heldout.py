"""Held-out prompts as pixels and chat content, for evaluating any runtime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from .buckets import BUCKETS
from .packing import pack_scene
from .render import RenderTables, render, render_tables
from .samples import draw_sample

Image = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class HeldOutSample:
    """One prompt nobody has trained on.

    Attributes:
        images: one ``[H,W,3]`` uint8 array per image, in prompt order.
        content: the user message's content list: one ``{"type": "image"}`` entry per image, then
            the text.
        answer: the exact text a greedy decoder must produce.
    """

    task: str
    bucket: str
    index: int
    images: tuple[Image, ...]
    content: tuple[dict[str, str], ...]
    answer: str

    @property
    def question(self) -> str:
        """The text part of the content."""
        return self.content[-1]["text"]


def heldout(
    task: str, bucket: str, n: int, seed: int = 0, *, first: int = 0
) -> Iterator[HeldOutSample]:
    """Held-out prompts ``first`` to ``n - 1`` of one task and bucket, one question each.

    Deterministic: sample ``i`` depends on ``(task, bucket, seed, i)`` alone. No training prompt is
    among them, whatever the seeds.

    Raises:
        ValueError: the bucket is unknown or does not offer the task.
    """
    if bucket not in BUCKETS:
        raise ValueError(f"no bucket {bucket!r}; there are {', '.join(BUCKETS)}")
    tables = render_tables()
    for index in range(first, n):
        yield _sample(task, bucket, index, seed, tables)


def tasks_of(bucket: str) -> tuple[str, ...]:
    """The tasks a bucket offers."""
    return tuple(task for task, _ in BUCKETS[bucket].tasks)


def _sample(task: str, bucket: str, index: int, seed: int, tables: RenderTables) -> HeldOutSample:
    layout = BUCKETS[bucket]
    sample = draw_sample(layout, index, split="heldout", seed=seed, questions=1, tasks=(task,))
    heads, cells = zip(*(pack_scene(scene, layout.cells) for scene in sample.scenes), strict=True)
    pixels = render(
        torch.from_numpy(np.stack(heads)),
        torch.from_numpy(np.stack(cells)),
        layout.height,
        layout.width,
        tables,
    ).numpy()
    question = sample.questions[0]
    content = (*({"type": "image"} for _ in pixels), {"type": "text", "text": question.text})
    return HeldOutSample(task, bucket, index, tuple(pixels), content, question.answer)
