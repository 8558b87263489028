"""A vision engine that remembers, for runs that ask about the same images again and again."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from ...runtime.engines import VisionBatch, VisionEngine, VisionOutput


class RememberedVision:
    """Encodes each distinct batch once, as long as it is among the ``capacity`` last used.

    What the language model is given is the same either way; the vision tower takes most of the time
    of a short prompt on a CPU.
    """

    def __init__(self, engine: VisionEngine, capacity: int) -> None:
        self.limits, self.dtype, self.device = engine.limits, engine.dtype, engine.device
        self._engine, self._capacity = engine, capacity
        self._outputs: OrderedDict[object, VisionOutput] = OrderedDict()

    def encode(self, batch: VisionBatch, *, attention: bool = False) -> VisionOutput:
        """As the engine's; see :class:`~edgevlm.runtime.engines.VisionEngine`."""
        # The rotations follow from the grid: the same pixels may be laid out in another.
        key = (_fingerprint(batch.patches), _fingerprint(batch.rope_cos))
        if key not in self._outputs:
            self._outputs[key] = self._engine.encode(batch, attention=True)
            if len(self._outputs) > self._capacity:
                self._outputs.popitem(last=False)
        self._outputs.move_to_end(key)
        output = self._outputs[key]
        return output if attention else replace(output, attention=None)


@lru_cache(maxsize=8)
def _multipliers(device: torch.device, size: int) -> Tensor:
    """``[2,size]`` fixed random int64 numbers."""
    generator = torch.Generator().manual_seed(0)
    bounds = torch.iinfo(torch.int64)
    return torch.randint(bounds.min, bounds.max, (2, size), generator=generator).to(device)


def _fingerprint(tensor: Tensor) -> tuple[object, ...]:
    """Shape and two random sums of the contents, modulo 2^64: where they differ, those do too.

    Computed where the tensor is. A cryptographic digest would take a copy to the host and, per
    large image, as long as the language model's prefill.
    """
    raw = tensor.contiguous().flatten().view(torch.uint8)
    words = functional.pad(raw, (0, -len(raw) % 8)).view(torch.int64)  # [w]
    words = words ^ (words >> 29)  # rounded numbers differ in their high bits alone
    size = max(1 << 16, 1 << (len(words) - 1).bit_length())  # few sizes: they are drawn once
    factors = _multipliers(words.device, size)[:, : len(words)]
    sums = (words * factors).sum(dim=1)  # [2]
    return (tuple(tensor.shape), *sums.tolist())
