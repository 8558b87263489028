"""KV caches whose capacity follows the longest sequence in them."""

from __future__ import annotations

import torch
from torch import Tensor

from ...core import EngineLimits
from ...models import TextConfig

_SMALLEST = 256


class GrowingKVCache:
    """Caches ``[max_batch,Hkv,C,D]`` of every layer, ``C`` a power of two up to ``max_kv_len``.

    ONNX Runtime's CPU attention computes all ``C`` rows of a cache, used or not, so ``C`` doubles
    when a sequence outgrows it, and falls back when a prompt finds it four times too large. Unused
    rows are finite always: an attention multiplies them by zero.
    """

    def __init__(self, config: TextConfig, limits: EngineLimits, dtype: torch.dtype) -> None:
        self._most = limits.max_kv_len
        self._lengths = [0] * limits.max_batch
        shape = (limits.max_batch, config.num_kv_heads, 0, config.head_dim)
        self._tensors = {
            f"{part}_cache_{layer}": torch.zeros(shape, dtype=dtype)
            for layer in range(config.num_layers)
            for part in ("k", "v")
        }
        self.capacity = 0
        self._resize(_SMALLEST)

    def slots(self, begin: int, end: int) -> dict[str, Tensor]:
        """The caches of slots ``begin..end-1`` by name, contiguous views ``[n,Hkv,C,D]``."""
        return {name: tensor[begin:end] for name, tensor in self._tensors.items()}

    def admit(self, slot: int, length: int) -> None:
        """Make room for a prompt of ``length`` rows in ``slot``."""
        self._lengths[slot] = length
        needed = max(self._lengths)
        if needed > self.capacity or 4 * needed <= self.capacity:
            self._resize(needed)

    def extend(self, lengths: tuple[int, ...]) -> None:
        """Make room for one more row in each of the first slots, ``lengths`` rows full; the other
        slots are free."""
        free = len(self._lengths) - len(lengths)
        self._lengths = [*(length + 1 for length in lengths), *[0] * free]
        if max(self._lengths) > self.capacity:
            self._resize(max(self._lengths))

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first ``length`` rows of slot ``source`` over slot ``target``."""
        for tensor in self._tensors.values():
            tensor[target, :, :length] = tensor[source, :, :length]
        self._lengths[target], self._lengths[source] = length, 0

    def _resize(self, needed: int) -> None:
        capacity = _SMALLEST
        while capacity < needed:
            capacity *= 2
        capacity = min(capacity, self._most)
        if capacity == self.capacity:
            return
        rows = min(max(self._lengths), self.capacity, capacity)
        for name, old in self._tensors.items():
            batch, heads, _, width = old.shape
            self._tensors[name] = old.new_zeros(batch, heads, capacity, width)
            self._tensors[name][:, :, :rows] = old[:, :, :rows]
        self.capacity = capacity
