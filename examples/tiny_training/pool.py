"""Ring buffers of prompts on the training device."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from edgevlm.accuracy.tiny.buckets import Bucket

from .chunks import Chunk, empty_chunk


@dataclass(frozen=True)
class Batch:
    """Prompts picked for one step; shapes as in :class:`~.chunks.Chunk`, on the device."""

    heads: Tensor
    cells: Tensor
    tokens: Tensor
    starts: Tensor
    lengths: Tensor
    tasks: Tensor


class Pool:
    """The latest ``capacity`` prompts of one bucket. Sampling needs no host synchronisation."""

    def __init__(
        self, bucket: Bucket, questions: int, capacity: int, device: torch.device | str
    ) -> None:
        self.capacity = capacity
        self.received = 0
        self._rings = {
            name: torch.from_numpy(array).to(device).new_zeros(capacity, *array.shape[1:])
            for name, array in empty_chunk(bucket, questions, 1).arrays().items()
        }
        # How many prompts are valid, where a captured graph can see it change.
        self._size = torch.zeros((), device=device)

    @property
    def size(self) -> int:
        """Prompts held now."""
        return min(self.received, self.capacity)

    def add(self, chunk: Chunk) -> None:
        """Store a chunk over the oldest prompts."""
        start = self.received % self.capacity
        count = min(len(chunk), self.capacity - start)
        for name, array in chunk.arrays().items():
            fresh = torch.from_numpy(array[:count])
            ring = self._rings[name][start : start + count]
            # From pinned memory the copy joins the stream; otherwise it would wait for the GPU.
            ring.copy_(fresh.pin_memory() if ring.is_cuda else fresh, non_blocking=True)
        self.received += count
        self._size.fill_(float(self.size))

    def draw(self, batch: int) -> Batch:
        """A random batch, with replacement."""
        place = torch.rand(batch, device=self._size.device) * self._size
        return self._take(place.long().clamp(max=self.capacity - 1))

    def slice(self, start: int, count: int) -> Batch:
        """Prompts ``start .. start + count`` in order of arrival."""
        return self._take(torch.arange(start, start + count, device=self._size.device))

    def _take(self, rows: Tensor) -> Batch:
        return Batch(**{name: ring[rows] for name, ring in self._rings.items()})
