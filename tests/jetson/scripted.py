"""A language model that says what it is told to: the text after ``say:`` in the last message.

Everything else is real: tokenizer, template, scheduler, sampler. ``slow:`` in a message makes each
step take as long as a small board's.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
from torch import Tensor

from edgevlm.core import EngineError, EngineLimits, PipelineIO
from edgevlm.jetson.worker.messages import WorkerSettings
from edgevlm.jetson.worker.opening import OpenedEngine, describe
from edgevlm.runtime import Runtime
from edgevlm.runtime.engines import DecodeBatch
from edgevlm.runtime.processor import Processor

LIMITS = EngineLimits(max_input_len=512, max_kv_len=2048, max_batch=2, max_image_tokens=64)
STEP_S = 0.02
SURE = 30.0


class ScriptedLLM:
    """Implements the engine protocol over scripts, one per slot."""

    limits = LIMITS
    dtype = torch.float32
    device = torch.device("cpu")

    def __init__(self, processor: Processor) -> None:
        text = processor.config.text
        self._tokenizer = processor.tokenizer
        self.embedding_table = torch.zeros(text.vocab_size, text.hidden_size)  # [V,H]
        self._scripts: dict[int, list[int]] = {}
        self._slow: dict[int, bool] = {}

    def prefill(self, slot: int, io: PipelineIO) -> Tensor:
        prompt = self._tokenizer.decode(io.token_ids.tolist(), skip_special_tokens=False)
        if "crash:" in prompt:
            os.kill(os.getpid(), 9)
        if "raise:" in prompt:
            raise RuntimeError("the device fell off the bus")
        said = prompt.rpartition("say:")[2].partition("<|im_end|>")[0]
        self._scripts[slot] = [*self._tokenizer.encode(said), min(self._tokenizer.eos_ids)]
        self._slow[slot] = "slow:" in prompt
        return self._next(slot)

    def decode(self, batch: DecodeBatch) -> Tensor:
        if any(self._slow[slot] for slot in range(len(batch))):
            time.sleep(STEP_S)
        return torch.stack([self._next(slot) for slot in range(len(batch))])

    def move_slot(self, source: int, target: int, length: int) -> None:
        self._scripts[target] = self._scripts[source]
        self._slow[target] = self._slow[source]

    def _next(self, slot: int) -> Tensor:
        script = self._scripts[slot]
        logits = torch.zeros(len(self.embedding_table))  # [V]
        logits[script.pop(0) if script else min(self._tokenizer.eos_ids)] = SURE
        return logits


def open_engine(settings: WorkerSettings) -> OpenedEngine:
    """What the worker calls instead of opening an engine directory."""
    processor = Processor.from_directories(Path(settings.llm), None)
    runtime = Runtime(
        ScriptedLLM(processor), None, processor, processor.config, max_batch=settings.slots
    )
    return OpenedEngine(runtime, describe(runtime, settings, "scripted", "float32"))


def refuse(settings: WorkerSettings) -> OpenedEngine:
    """An engine that cannot be opened."""
    raise EngineError(f"{settings.llm}: built for another board")
