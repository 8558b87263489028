"""Remembered vision outputs are the engine's own, and each is asked for once."""

from __future__ import annotations

import torch

from edgevlm.accuracy.evaluation.remembered_vision import RememberedVision
from edgevlm.core import EngineLimits
from edgevlm.runtime.engines import PatchAttention, VisionBatch, VisionOutput


class Engine:
    limits, dtype, device = EngineLimits(), torch.float32, torch.device("cpu")
    calls = 0

    def encode(self, batch: VisionBatch, *, attention: bool = False) -> VisionOutput:
        self.calls += 1
        watched = PatchAttention(batch.patches, batch.patches) if attention else None
        return VisionOutput(batch.patches * 2, batch.patches * 3, watched)


def batch(value: float, turned: float = 0.0) -> VisionBatch:
    rows = torch.full((1, 4, 2), value)
    return VisionBatch(rows, rows + turned, rows, rows.long(), rows, torch.tensor([4]))


def test_a_batch_is_encoded_once_with_or_without_attention() -> None:
    engine = Engine()
    remembered = RememberedVision(engine, capacity=2)
    for wanted in (False, True, False):
        output = remembered.encode(batch(1.0), attention=wanted)
        assert torch.equal(output.embeds, batch(1.0).patches * 2)
        assert (output.attention is not None) == wanted
    assert engine.calls == 1


def test_the_oldest_is_forgotten_and_the_grid_counts() -> None:
    engine = Engine()
    remembered = RememberedVision(engine, capacity=2)
    remembered.encode(batch(1.0))
    remembered.encode(batch(1.0, turned=1.0))  # the same pixels in another grid
    assert engine.calls == 2
    remembered.encode(batch(1.0))
    remembered.encode(batch(2.0))  # takes the place of the turned one
    remembered.encode(batch(1.0))
    assert engine.calls == 3
    remembered.encode(batch(1.0, turned=1.0))
    assert engine.calls == 4
