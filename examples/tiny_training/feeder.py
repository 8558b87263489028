"""Processes that generate prompts before and during training."""

from __future__ import annotations

import multiprocessing as mp
import os
import queue
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from edgevlm.accuracy.tiny.buckets import BUCKETS

from .chunks import Chunk, ChunkMaker

CHUNK_PROMPTS = 256


class Feeder:
    """A bounded queue of chunks, filled by ``workers`` processes.

    Chunk ``k`` of the whole stream is a pure function of the seed and ``k``; which chunks have
    arrived by a given step depends on timing.

    Args:
        shares: buckets and how many of every ``sum(shares)`` chunks are theirs.
        first: number of the first chunk, so that a resumed run goes on where it stopped.
    """

    def __init__(
        self,
        shares: dict[str, int],
        *,
        questions: int,
        seed: int,
        workers: int,
        first: int = 0,
    ) -> None:
        # Forked before CUDA starts: children share the loaded modules and begin at once.
        context = mp.get_context("fork")
        self._queue: Any = context.Queue(maxsize=4 * workers)
        order = _interleave(shares)
        self._processes = [
            context.Process(
                target=_work,
                args=(self._queue, order, questions, seed, first + worker, workers),
                daemon=True,
            )
            for worker in range(workers)
        ]
        self.next_chunk = first
        for process in self._processes:
            process.start()

    def poll(self, limit: int) -> Iterator[Chunk]:
        """Up to ``limit`` chunks that are ready now."""
        for _ in range(limit):
            try:
                chunk = self._queue.get_nowait()
            except queue.Empty:
                return
            self.next_chunk += 1
            yield chunk

    def wait(self, seconds: float) -> Chunk | None:
        """The next chunk, or ``None`` when none came in time."""
        try:
            chunk: Chunk = self._queue.get(timeout=seconds)
        except queue.Empty:
            return None
        self.next_chunk += 1
        return chunk

    def close(self) -> None:
        """Stop the workers; what they had not sent is lost."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join(timeout=5)
        self._queue.close()
        self._queue.cancel_join_thread()

    def __enter__(self) -> Feeder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _work(
    out: Any, order: Sequence[str], questions: int, seed: int, first: int, stride: int
) -> None:
    os.nice(5)  # the process that drives the GPU comes first
    maker = ChunkMaker(questions, seed, "train")
    number = first
    while True:
        # Every bucket has its own stream of prompts; a chunk's place in it follows from `number`.
        bucket = BUCKETS[order[number % len(order)]]
        out.put(maker.make(bucket, number * CHUNK_PROMPTS, CHUNK_PROMPTS))
        number += stride


def _interleave(shares: dict[str, int]) -> list[str]:
    """Spread buckets evenly: ``{"a": 2, "b": 1}`` -> ``["a", "b", "a"]``."""
    slots = [
        ((place + 0.5) / share, name) for name, share in shares.items() for place in range(share)
    ]
    return [name for _, name in sorted(slots)]
