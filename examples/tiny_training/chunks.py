"""Prompts as arrays: what the generating processes send to the trainer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from edgevlm.accuracy.tiny.buckets import Bucket
from edgevlm.accuracy.tiny.chat import MAX_ANSWER, ChatEncoder
from edgevlm.accuracy.tiny.packing import CELL_FIELDS, HEAD_FIELDS, pack_scene
from edgevlm.accuracy.tiny.questions import TASKS
from edgevlm.accuracy.tiny.samples import Sample, draw_sample
from edgevlm.accuracy.tiny.tokenizer import build_tokenizer

Array = npt.NDArray[np.uint8] | npt.NDArray[np.int16]


@dataclass(frozen=True)
class Chunk:
    """``n`` prompts of one bucket.

    Attributes:
        heads: ``[n,images,HEAD_FIELDS]`` uint8.
        cells: ``[n,images,slots,CELL_FIELDS]`` uint8.
        tokens: ``[n,Q,L]`` int16; zeros after the answer.
        starts: ``[n,Q]`` uint8, first answer token of each branch.
        lengths: ``[n,Q]`` uint8, answer tokens, the end of turn included.
        tasks: ``[n,Q]`` uint8, indices into ``TASKS``.
    """

    bucket: str
    heads: npt.NDArray[np.uint8]
    cells: npt.NDArray[np.uint8]
    tokens: npt.NDArray[np.int16]
    starts: npt.NDArray[np.uint8]
    lengths: npt.NDArray[np.uint8]
    tasks: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.heads)

    def arrays(self) -> dict[str, Array]:
        """The arrays by name, in declaration order."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "bucket"}


def empty_chunk(bucket: Bucket, questions: int, count: int) -> Chunk:
    """A chunk of zeros, to be filled or to size buffers by."""
    images, cells, branch = bucket.images, bucket.cells, bucket.branch_tokens
    return Chunk(
        bucket.name,
        np.zeros((count, images, HEAD_FIELDS), np.uint8),
        np.zeros((count, images, cells, CELL_FIELDS), np.uint8),
        np.zeros((count, questions, branch), np.int16),
        np.zeros((count, questions), np.uint8),
        np.zeros((count, questions), np.uint8),
        np.zeros((count, questions), np.uint8),
    )


class ChunkMaker:
    """Draws, packs and encodes ranges of a stream of prompts."""

    def __init__(self, questions: int, seed: int, split: str) -> None:
        self._questions, self._seed, self._split = questions, seed, split
        self._encoder = ChatEncoder(build_tokenizer())

    def make(self, bucket: Bucket, first: int, count: int) -> Chunk:
        """Prompts ``first .. first + count`` of the bucket's stream."""
        samples = (
            draw_sample(
                bucket,
                index,
                split=self._split,
                seed=self._seed,
                questions=self._questions,
            )
            for index in range(first, first + count)
        )
        return encode_samples(bucket, samples, count, self._questions, self._encoder)


def encode_samples(
    bucket: Bucket,
    samples: Iterable[Sample],
    count: int,
    questions: int,
    encoder: ChatEncoder,
) -> Chunk:
    """Pack ``count`` samples of ``questions`` questions each."""
    chunk = empty_chunk(bucket, questions, count)
    for row, sample in enumerate(samples):
        for image, scene in enumerate(sample.scenes):
            chunk.heads[row, image], chunk.cells[row, image] = pack_scene(scene, bucket.cells)
        for place, question in enumerate(sample.questions):
            branch = encoder.branch(question)
            if len(branch.tokens) > bucket.branch_tokens:
                raise ValueError(
                    f"{bucket.name}: {question!r} takes {len(branch.tokens)} tokens, "
                    f"more than the {bucket.branch_tokens} of a branch"
                )
            chunk.tokens[row, place, : len(branch.tokens)] = branch.tokens
            chunk.starts[row, place] = branch.start
            chunk.lengths[row, place] = len(branch.tokens) - branch.start
            chunk.tasks[row, place] = TASKS.index(question.task)
    if chunk.lengths.max(initial=0) > MAX_ANSWER:
        raise ValueError(f"an answer is longer than {MAX_ANSWER} tokens")
    return chunk
