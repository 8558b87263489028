"""A vision engine that remembers, for runs that ask about the same images again and again."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import replace

from ...runtime.engines import VisionBatch, VisionEngine, VisionOutput


class RememberedVision:
    """Encodes each distinct batch once, as long as it is among the ``capacity`` last used.

    What the language model is given is the same either way; the vision tower takes most of the time
    of a short prompt on a CPU.
    """

    def __init__(self, engine: VisionEngine, capacity: int) -> None:
        self.limits, self.dtype, self.device = engine.limits, engine.dtype, engine.device
        self._engine, self._capacity = engine, capacity
        self._outputs: OrderedDict[bytes, VisionOutput] = OrderedDict()

    def encode(self, batch: VisionBatch, *, attention: bool = False) -> VisionOutput:
        """As the engine's; see :class:`~edgevlm.runtime.engines.VisionEngine`."""
        key = _digest(batch)
        if key not in self._outputs:
            self._outputs[key] = self._engine.encode(batch, attention=True)
            if len(self._outputs) > self._capacity:
                self._outputs.popitem(last=False)
        self._outputs.move_to_end(key)
        output = self._outputs[key]
        return output if attention else replace(output, attention=None)


def _digest(batch: VisionBatch) -> bytes:
    """Patches with their rotations, which follow from the grid."""
    digest = hashlib.blake2b(repr(batch.patches.shape).encode())
    for tensor in (batch.patches, batch.rope_cos):
        digest.update(tensor.cpu().contiguous().float().numpy().tobytes())
    return digest.digest()
