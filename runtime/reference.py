"""The reference an engine is compared with: the torch networks on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from ..core import EngineLimits
from ..core.gpu import host_available_bytes
from ..models import Checkpoint
from .engines import LLMEngine, VisionEngine
from .engines.torch_llm import TorchLLMEngine
from .engines.torch_vision import TorchVisionEngine

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Reference:
    """Both networks, with ``slots`` sequences at most."""

    llm: LLMEngine
    vision: VisionEngine


def open_reference(checkpoint: Checkpoint, limits: EngineLimits, slots: int) -> Reference:
    """float32 where the host has the memory for it, else the checkpoint's own dtype."""
    own = checkpoint.embedding_table().dtype
    wide = checkpoint.nbytes // own.itemsize * 4
    dtype = torch.float32 if host_available_bytes() > 1.5 * wide else own
    limits = replace(limits, max_batch=slots)
    config = checkpoint.config
    table = checkpoint.embedding_table()
    return Reference(
        TorchLLMEngine(config.text, limits, checkpoint.text_state(), table, dtype, _CPU),
        TorchVisionEngine(config.vision, limits, checkpoint.vision_state(), dtype, _CPU),
    )


class Peak:
    """The largest magnitude seen so far."""

    value = 0.0


@contextmanager
def recorded_peak() -> Iterator[Peak]:
    """Watch what goes in and out of every module meanwhile: what float16 would have to hold."""
    peak = Peak()

    def watch(module: nn.Module, inputs: Any, output: Any) -> None:
        for tensor in (*inputs, output):
            if isinstance(tensor, Tensor) and tensor.is_floating_point() and tensor.numel():
                peak.value = max(peak.value, float(tensor.abs().max()))

    handle = register_module_forward_hook(watch)
    try:
        yield peak
    finally:
        handle.remove()
