"""Is the fast language model right: against fp32, operator by operator, on the same inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..core import EngineLimits, PipelineIO
from ..runtime.engines import DecodeBatch
from ..runtime.engines.torch_llm import TorchLLMEngine
from .checks import WrongResult
from .llm_shapes import LLMShape, make_engine
from .prompts import PromptShape

_LAYERS = 4  # with more of them, rounding alone makes a bf16 network differ from an fp32 one
_PASSES = 3  # as it is, captured, replayed
_BATCHES = (1, 3, 11)  # the last one is padded
_LARGEST_ERROR = {torch.bfloat16: 3e-2, torch.float16: 5e-3, torch.float32: 1e-4}


def check(shape: LLMShape, dtype: torch.dtype, device: torch.device) -> Iterator[dict[str, Any]]:
    """Compare logits with fp32's; graphs with launches; slots and padding with their absence.

    Raises:
        WrongResult: the relative error of some logits is too large; all of them are named.
    """
    config = replace(shape.config, num_layers=min(_LAYERS, shape.config.num_layers))
    limits = EngineLimits(512, 640, max(_BATCHES))
    single = torch.float32
    truth = list(
        _trace(make_engine(config, limits, single, device, fused=False, weights=dtype), dtype)
    )
    ways: dict[str, dict[str, Any]] = {
        "plain": {"fused": False},
        "fused": {"fused": True, "max_graphs": 0},
        "graphs": {"fused": True},
    }
    wrong = []
    for way, choices in ways.items():
        worst: dict[str, float] = {}
        found = _trace(make_engine(config, limits, dtype, device, **choices), dtype)
        for (what, logits), (_, expected) in zip(found, truth, strict=True):
            error = float((logits.double() - expected.double()).norm() / expected.double().norm())
            worst[what] = max(error, worst.get(what, 0.0))
        for what, error in worst.items():
            yield {"check": f"{way}, {what}", "error": error}
            if not error < _LARGEST_ERROR[dtype]:
                wrong.append(f"{way}, {what}: relative error {error:.1e}")
    if wrong:
        raise WrongResult("; ".join(wrong))


def _trace(engine: TorchLLMEngine, dtype: torch.dtype) -> Iterator[tuple[str, Tensor]]:
    """Logits of prompts of many lengths in all slots, in a row, and of batches of tokens."""
    hidden = engine.embedding_table.shape[1]
    prompts = [
        _prompt(hidden, 300 - 7 * slot, slot, dtype, engine) for slot in range(max(_BATCHES))
    ]
    # Ever shorter, most in one bucket: each one's padding is where an earlier one has been.
    for slot, io in enumerate(prompts):
        yield "prefill", engine.prefill(slot, io)
    for count in _BATCHES:
        for step in range(_PASSES):
            lengths = tuple(len(io) + step for io in prompts[:count])
            yield f"decode {count}", engine.decode(_batch(hidden, lengths, step, dtype, engine))
    yield "prefill, slot 1", engine.prefill(1, prompts[0])
    engine.move_slot(1, 0, len(prompts[0]))
    batch = _batch(hidden, (len(prompts[0]),), 0, dtype, engine)
    yield "decode 1, moved", engine.decode(batch)


def _prompt(
    hidden: int, tokens: int, seed: int, dtype: torch.dtype, engine: TorchLLMEngine
) -> PipelineIO:
    """In numbers of ``dtype``, whatever the engine computes with."""
    io = PromptShape(1, tokens, hidden).make(seed, dtype, engine.device, ties=False)
    visual = torch.zeros(len(io), 1, dtype=dtype, device=engine.device)
    visual[io.spans[0].start : io.spans[0].end] = 1
    return replace(
        io, embeds=io.embeds.to(engine.dtype), deepstack=(io.deepstack * visual).to(engine.dtype)
    )


def _batch(
    hidden: int, lengths: tuple[int, ...], seed: int, dtype: torch.dtype, engine: TorchLLMEngine
) -> DecodeBatch:
    generator = torch.Generator(engine.device).manual_seed(seed)
    size = (len(lengths), hidden)
    embeds = torch.randn(size, generator=generator, device=engine.device).to(dtype)
    positions = torch.tensor(lengths, device=engine.device) + 3
    return DecodeBatch(embeds.to(engine.dtype), positions, lengths)
